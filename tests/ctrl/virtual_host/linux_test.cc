// Our TCP against Linux' own: a namespace plays the real node, its kernel's sockets talk through
// the TAP to a VirtualHost. Needs the right to create network namespaces and TAPs; says so and
// skips where it lacks it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <functional>

#include "dataplane/base/pattern.h"
#include "tests/rigs/virtual_hosts.h"

namespace understudy {
namespace {

constexpr size_t kBytes = size_t{1} << 20;
constexpr uint16_t kPort = 5000;

IpAddress ip(const char* text) { return IpAddress::parse(text).value(); }

std::string text_of(size_t size, uint64_t seed) {
  std::string text(size, 0);
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(splitmix64(seed + i));
  return text;
}

class VirtualHostLinux : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    HostNamespaceSpec linux_side, our_side;
    linux_side.emulated = {IpPrefix{real_, v4_ ? 32u : 128u}};
    linux_side.real = {ours_};
    our_side.emulated = {IpPrefix{ours_, v4_ ? 16u : 64u}};
    our_side.real = {real_};
    auto made = HostNamespace::create(linux_side);
    if (!made && made.error().text.find("no permission") != std::string::npos) {
      GTEST_SKIP() << made.error().text;
    }
    ASSERT_TRUE(made.has_value()) << made.error().text;
    linux_ = std::move(*made);
    PeerHost::Callbacks callbacks;
    callbacks.endpoint = [](NodeId, ConnectionId, const EndpointRequest&) {};
    callbacks.start = [](const EndpointStart&) {};
    callbacks.ended = [this](const EndedConnection& end) { ended_.push_back(end); };
    host_ = std::make_unique<VirtualHost>(
        our_side, 5, callbacks,
        [this](std::span<const uint8_t> frame) { out_.emplace_back(frame.begin(), frame.end()); });
  }

  static Time now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return Time::from_ps(std::chrono::nanoseconds(since).count() * 1000);
  }
  /// Carries frames both ways until `done`; false after 20 s.
  bool carry_until(const std::function<bool()>& done) {
    const Time end = now() + Duration::s(20);
    while (now() < end) {
      if (done()) return true;
      pollfd tap{linux_->fd(), POLLIN, 0};
      ::poll(&tap, 1, 1);
      std::array<uint8_t, 2048> frame;
      while (const size_t size = linux_->read_frame(frame)) {
        host_->on_frame(now(), std::span(frame).first(size));
      }
      host_->on_time(now());
      for (auto& bytes : std::exchange(out_, {})) {
        if (drop_every_ != 0 && ++sent_ % drop_every_ == 0) continue;
        std::copy_n(kHostNamespaceMac.bytes.begin(), 6, bytes.begin());
        std::copy_n(kHostNamespacePeerMac.bytes.begin(), 6, bytes.begin() + 6);
        linux_->write_frame(bytes);
      }
    }
    return false;
  }

  /// Both sides say kBytes at once over `fd`, Linux' end, and both have heard all.
  void talk(int fd, const TalkingPeer::Memory& memory) {
    const std::string theirs = text_of(kBytes, 1);
    std::string heard;
    size_t said = 0;
    std::array<char, 65536> buffer;
    const bool done = carry_until([&] {
      const ssize_t sent = send(fd, theirs.data() + said, theirs.size() - said, MSG_NOSIGNAL);
      if (sent > 0) said += static_cast<size_t>(sent);
      for (ssize_t got; (got = recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
        heard.append(buffer.data(), static_cast<size_t>(got));
      }
      return heard.size() >= kBytes && memory.heard.size() >= kBytes;
    });
    EXPECT_TRUE(done) << heard.size() << " and " << memory.heard.size() << " bytes";
    EXPECT_TRUE(heard == text_of(kBytes, 2));
    EXPECT_TRUE(memory.heard == theirs);
  }
  std::unique_ptr<Peer> talker() {
    return std::make_unique<TalkingPeer>(text_of(kBytes, 2), kBytes, memory_);
  }
  /// Linux' end sees the end of the connection.
  void expect_end(int fd) {
    char byte = 0;
    ssize_t got = -1;
    EXPECT_TRUE(carry_until([&] { return (got = recv(fd, &byte, 1, 0)) >= 0 || errno != EAGAIN; }));
    EXPECT_EQ(got, 0);
  }

  void linux_calls();
  void we_call();

  const bool v4_ = GetParam();
  const IpAddress real_ = ip(v4_ ? "10.9.200.200" : "fd00:9::c8c8");
  const IpAddress ours_ = ip(v4_ ? "10.9.0.7" : "fd00:9::7");
  std::unique_ptr<HostNamespace> linux_;
  std::unique_ptr<VirtualHost> host_;
  std::vector<std::vector<uint8_t>> out_;
  std::vector<EndedConnection> ended_;
  std::shared_ptr<TalkingPeer::Memory> memory_ = std::make_shared<TalkingPeer::Memory>();
  size_t drop_every_ = 0, sent_ = 0;
};

void VirtualHostLinux::linux_calls() {
  ASSERT_TRUE(host_->listen_at({ours_, kPort}, 7, [this] { return talker(); }));
  const auto connecting = linux_->connect_tcp(real_, ours_, kPort);
  ASSERT_TRUE(connecting.has_value()) << connecting.error().text;
  UniqueFd fd(*connecting);
  talk(fd.get(), *memory_);
  shutdown(fd.get(), SHUT_WR);
  expect_end(fd.get());
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].node, 7u);
  EXPECT_EQ(ended_[0].failure, "");
}

void VirtualHostLinux::we_call() {
  const auto listening = linux_->listen_tcp(real_, kPort);
  ASSERT_TRUE(listening.has_value()) << listening.error().text;
  const UniqueFd listener(*listening);
  ASSERT_TRUE(host_->call_for(7, ours_, {real_, kPort}, talker()).has_value());
  UniqueFd fd;
  ASSERT_TRUE(carry_until([&] {
    fd = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
    return fd.valid();
  }));
  talk(fd.get(), *memory_);
  expect_end(fd.get());
  fd = UniqueFd();
  EXPECT_TRUE(carry_until([&] { return !ended_.empty(); }));
  EXPECT_TRUE(memory_->connected);
  EXPECT_EQ(ended_[0].failure, "");
}

TEST_P(VirtualHostLinux, Calls) {
  linux_calls();
  EXPECT_EQ(host_->counters().bad_checksums + host_->counters().malformed, 0u);
  // Our FIN's ACK is the last that happens.
  EXPECT_TRUE(carry_until([&] { return host_->tcp_connections() == 0; }));
}

TEST_P(VirtualHostLinux, IsCalled) {
  we_call();
  EXPECT_EQ(host_->counters().bad_checksums + host_->counters().malformed, 0u);
}

TEST_P(VirtualHostLinux, CallsOverALossyPath) {
  drop_every_ = 97;
  linux_calls();
  EXPECT_GT(host_->counters().retransmissions, 0u);
}

TEST_P(VirtualHostLinux, IsCalledOverALossyPath) {
  drop_every_ = 97;
  we_call();
  EXPECT_GT(host_->counters().retransmissions, 0u);
}

TEST_P(VirtualHostLinux, ReadsLate) {
  const auto listening = linux_->listen_tcp(real_, kPort);
  ASSERT_TRUE(listening.has_value()) << listening.error().text;
  const UniqueFd listener(*listening);
  const int small = 4096;  // of its window
  setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  ASSERT_TRUE(host_->call_for(7, ours_, {real_, kPort}, talker()).has_value());
  UniqueFd fd;
  ASSERT_TRUE(carry_until([&] {
    fd = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
    return fd.valid();
  }));
  // The window has closed and is probed.
  EXPECT_TRUE(carry_until([&] { return host_->counters().retransmissions >= 1; }));
  const Time later = now() + Duration::s(1);
  EXPECT_TRUE(carry_until([&] { return now() >= later; }));
  std::string heard;
  std::array<char, 65536> buffer;
  EXPECT_TRUE(carry_until([&] {
    for (ssize_t got; (got = recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0;) {
      heard.append(buffer.data(), static_cast<size_t>(got));
    }
    return heard.size() >= kBytes;
  }));
  EXPECT_TRUE(heard == text_of(kBytes, 2));
}

TEST_P(VirtualHostLinux, AndWeRefuseEachOther) {
  ASSERT_TRUE(host_->call_for(7, ours_, {real_, 99}, talker()).has_value());
  EXPECT_TRUE(carry_until([&] { return !ended_.empty(); }));
  EXPECT_TRUE(ended_[0].refused);
  const auto connecting = linux_->connect_tcp(real_, ours_, 99);
  ASSERT_TRUE(connecting.has_value()) << connecting.error().text;
  const UniqueFd fd(*connecting);
  int error = 0;
  EXPECT_TRUE(carry_until([&] {
    socklen_t size = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error != 0;
  }));
  EXPECT_EQ(error, ECONNREFUSED);
}

TEST_P(VirtualHostLinux, Resets) {
  ASSERT_TRUE(host_->listen_at({ours_, kPort}, 7, [this] { return talker(); }));
  const auto connecting = linux_->connect_tcp(real_, ours_, kPort);
  ASSERT_TRUE(connecting.has_value()) << connecting.error().text;
  UniqueFd fd(*connecting);
  ASSERT_TRUE(carry_until([&] { return send(fd.get(), "x", 1, MSG_NOSIGNAL) == 1; }));
  EXPECT_TRUE(carry_until([&] { return memory_->heard.size() == 1; }));
  const linger at_once{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd = UniqueFd();
  EXPECT_TRUE(carry_until([&] { return !ended_.empty(); }));
  EXPECT_TRUE(memory_->closed);
  EXPECT_EQ(host_->tcp_connections(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Families, VirtualHostLinux, testing::Bool(),
                         [](const auto& family) { return family.param ? "IPv4" : "IPv6"; });

}  // namespace
}  // namespace understudy
