// The exception namespace, against a second one that plays the real node: the test plays the
// dataplane between the two TAPs. Needs the right to create network namespaces and TAPs; says so
// and skips where it lacks it.
#include "ctrl/host_namespace/host_namespace.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "ctrl/host_namespace/namespace_setup.h"

namespace understudy {
namespace {

constexpr int kAddresses = 1000;
constexpr uint16_t kPort = 18515;

IpAddress ip(const char* text) { return IpAddress::parse(text).value(); }
IpPrefix prefix(const char* text) { return IpPrefix::parse(text).value(); }

/// The emulated side and the real node, and the wire between them.
class HostNamespaceTest : public testing::Test {
 protected:
  void SetUp() override {
    HostNamespaceSpec emulated;
    emulated.emulated = {prefix("10.9.0.1/16"), prefix("fd00:9::/64")};
    emulated.real = {real_v4_, real_v6_};
    HostNamespaceSpec real;
    real.emulated = {prefix("10.9.200.200/32"), prefix("fd00:9::c8c8/128")};
    for (uint64_t i = 1; i <= kAddresses; ++i) {
      v4_.push_back(emulated.emulated[0].host(i).value());
      v6_.push_back(emulated.emulated[1].host(i).value());
    }
    real.real = v4_;
    real.real.insert(real.real.end(), v6_.begin(), v6_.end());
    auto ours = HostNamespace::create(emulated);
    if (!ours && ours.error().text.find("no permission") != std::string::npos) {
      GTEST_SKIP() << ours.error().text;
    }
    ASSERT_TRUE(ours.has_value()) << ours.error().text;
    ours_ = std::move(*ours);
    auto theirs = HostNamespace::create(real);
    ASSERT_TRUE(theirs.has_value()) << theirs.error().text;
    theirs_ = std::move(*theirs);
  }

  /// Carries frames both ways, as the dataplane does, until `done` or 20 s have passed.
  bool carry_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      if (done()) return true;
      std::array<pollfd, 2> fds = {{{ours_->fd(), POLLIN, 0}, {theirs_->fd(), POLLIN, 0}}};
      ::poll(fds.data(), fds.size(), 1);
      carry(*ours_, *theirs_);
      carry(*theirs_, *ours_);
    }
    return false;
  }

  void carry(const HostNamespace& from, const HostNamespace& to) {
    std::array<uint8_t, 2048> frame;
    for (size_t size; (size = from.read_frame(frame)) > 0;) {
      const auto bytes = std::span(frame).first(size);
      ASSERT_GE(size, 14u);
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.begin() + 6, kHostNamespacePeerMac.bytes.begin()))
          << "a frame that no neighbour entry explains";
      std::copy(kHostNamespaceMac.bytes.begin(), kHostNamespaceMac.bytes.end(), bytes.begin());
      std::copy(kHostNamespacePeerMac.bytes.begin(), kHostNamespacePeerMac.bytes.end(),
                bytes.begin() + 6);
      ++frames_;
      to.write_frame(bytes);
    }
  }

  /// Opens a connection from each of `clients` to each server and moves one byte both ways.
  struct Pair {
    UniqueFd listener, client, server;
  };
  void open(const HostNamespace& servers, const HostNamespace& clients, const IpAddress& server,
            const IpAddress& client, std::vector<Pair>& pairs) {
    auto listener = servers.listen_tcp(server, kPort);
    ASSERT_TRUE(listener.has_value()) << listener.error().text;
    Pair pair;
    pair.listener = UniqueFd(*listener);
    auto connecting = clients.connect_tcp(client, server, kPort);
    ASSERT_TRUE(connecting.has_value()) << connecting.error().text;
    pair.client = UniqueFd(*connecting);
    pairs.push_back(std::move(pair));
  }
  static bool accept_all(std::vector<Pair>& pairs) {
    bool all = true;
    for (Pair& pair : pairs) {
      if (!pair.server.valid())
        pair.server = UniqueFd(accept(pair.listener.get(), nullptr, nullptr));
      all = all && pair.server.valid();
    }
    return all;
  }
  bool exchange(std::vector<Pair>& pairs) {
    if (!carry_until([&] { return accept_all(pairs); })) return false;
    for (const Pair& pair : pairs) {
      if (send(pair.server.get(), "y", 1, 0) != 1) return false;
    }
    size_t heard = 0;
    return carry_until([&] {
      for (; heard < pairs.size(); ++heard) {
        char byte = 0;
        if (recv(pairs[heard].client.get(), &byte, 1, 0) != 1) return false;
      }
      return true;
    });
  }

  const IpAddress real_v4_ = ip("10.9.200.200");
  const IpAddress real_v6_ = ip("fd00:9::c8c8");
  std::vector<IpAddress> v4_, v6_;
  std::unique_ptr<HostNamespace> ours_, theirs_;
  size_t frames_ = 0;
};

TEST_F(HostNamespaceTest, ThousandAddressesListenOnIpv4AndIpv6) {
  std::vector<Pair> pairs;
  for (size_t i = 0; i < kAddresses; ++i) {
    open(*ours_, *theirs_, v4_[i], real_v4_, pairs);
    open(*ours_, *theirs_, v6_[i], real_v6_, pairs);
    if (HasFatalFailure()) return;
  }
  ASSERT_EQ(pairs.size(), 2u * kAddresses);
  EXPECT_TRUE(exchange(pairs));
  // Each server socket stands on its own emulated node's address.
  sockaddr_in name{};
  socklen_t size = sizeof name;
  ASSERT_EQ(getsockname(pairs[2].server.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  EXPECT_EQ(ntohl(name.sin_addr.s_addr), v4_[1].v4_value());
  EXPECT_GT(frames_, 6000u);  // three frames per handshake went over the TAP
}

TEST_F(HostNamespaceTest, EmulatedNodesConnectToTheRealNode) {
  std::vector<Pair> pairs;
  open(*theirs_, *ours_, real_v4_, v4_[41], pairs);
  open(*theirs_, *ours_, real_v6_, v6_[42], pairs);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(exchange(pairs));
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  ASSERT_EQ(getpeername(pairs[0].server.get(), reinterpret_cast<sockaddr*>(&peer), &size), 0);
  EXPECT_EQ(ntohl(peer.sin_addr.s_addr), v4_[41].v4_value());
}

TEST_F(HostNamespaceTest, ClosedPortIsRefusedAtOnce) {
  for (const auto& [from, to] : {std::pair(real_v4_, v4_[7]), std::pair(real_v6_, v6_[7])}) {
    auto connecting = theirs_->connect_tcp(from, to, 99);
    ASSERT_TRUE(connecting.has_value()) << connecting.error().text;
    const UniqueFd fd(*connecting);
    int error = 0;
    socklen_t size = sizeof error;
    EXPECT_TRUE(carry_until([&] {
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      return error != 0;
    }));
    EXPECT_EQ(error, ECONNREFUSED);
  }
}

TEST_F(HostNamespaceTest, AddressOutsideThePrefixesIsAnError) {
  const auto listener = ours_->listen_tcp(ip("10.10.0.1"), kPort);
  ASSERT_FALSE(listener.has_value());
  EXPECT_NE(listener.error().text.find("10.10.0.1 is in no emulated prefix"), std::string::npos);
  const auto twice = ours_->listen_tcp(v4_[0], kPort);
  ASSERT_TRUE(twice.has_value());
  const UniqueFd first(*twice);
  const auto again = ours_->listen_tcp(v4_[0], kPort);
  ASSERT_FALSE(again.has_value());
  EXPECT_NE(again.error().text.find("listen 10.9.0.1 18515: Address already in use"),
            std::string::npos)
      << again.error().text;
}

/// Ends the process with status 0 if a kernel that forbids new namespaces gives the right text.
[[noreturn]] void create_without_permission() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(filter), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(2);
  }
  const auto result = HostNamespace::create({});
  const std::string text = result ? "it was created" : result.error().text;
  std::fprintf(stderr, "%s\n", text.c_str());
  _exit(text.find("no permission to create a TAP: ") == std::string::npos ? 1 : 0);
}

TEST(HostNamespaceErrors, NoPermissionIsAText) {
  EXPECT_EXIT(create_without_permission(), testing::ExitedWithCode(0), "needs root");
}

TEST(HostNamespaceCommands, RealNodesBeatThePrefixAroundThem) {
  HostNamespaceSpec spec;
  spec.mtu = 4200;
  spec.emulated = {prefix("10.9.0.1/16")};
  spec.real = {ip("10.9.0.200")};
  EXPECT_EQ(namespace_commands(spec),
            "link set dev lo up\n"
            "link set dev tap0 txqueuelen 4096 address 02:75:ff:00:00:01 mtu 4200\n"
            "link set dev tap0 up\n"
            "route add local 10.9.0.0/16 dev lo table local\n"
            "route add unicast 10.9.0.200/32 dev tap0 table local\n"
            "neigh add 10.9.0.200 lladdr 02:75:ff:00:00:02 dev tap0 nud permanent\n");
}

}  // namespace
}  // namespace understudy
