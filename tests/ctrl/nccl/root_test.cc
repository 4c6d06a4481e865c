// Emulated ranks check in with the root of NVIDIA's own libnccl.so.2, over real sockets of the
// loopback device: ncclGetUniqueId starts it, and needs no driver. Skipped where there is none.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "ctrl/peers/nccl/communicator.h"
#include "ctrl/peers/socket_adapter.h"
#include "ctrl/peers/sockets/nccl_sockets.h"
#include "tools/nccl_decode/fields.h"
#include "tools/nccl_decode/layout.h"

namespace understudy {
namespace {

using Bytes = std::vector<uint8_t>;

/// What the library's process says: its version and an id.
struct Told {
  int32_t version = 0;
  std::array<uint8_t, 128> id{};
};

/// A process of its own that has called ncclGetUniqueId, and lives until this goes.
class Library {
 public:
  Library() {
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      close(ends[0]);
      setenv("NCCL_SOCKET_IFNAME", "lo", 1);
      unsetenv("NCCL_COMM_ID");
      Told told;
      void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) _exit(1);
      const auto version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
      const auto unique_id = reinterpret_cast<int (*)(void*)>(dlsym(library, "ncclGetUniqueId"));
      if (version == nullptr || unique_id == nullptr || version(&told.version) != 0 ||
          unique_id(told.id.data()) != 0 || write(ends[1], &told, sizeof told) != sizeof told) {
        _exit(2);
      }
      for (;;) pause();
    }
    close(ends[1]);
    Told told;
    if (read(ends[0], &told, sizeof told) == static_cast<ssize_t>(sizeof told)) told_ = told;
    close(ends[0]);
  }
  ~Library() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  const std::optional<Told>& told() const { return told_; }

 private:
  pid_t child_ = -1;
  std::optional<Told> told_;
};

sockaddr_in loopback(uint32_t address, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address);
  out.sin_port = htons(port);
  return out;
}

Result<int> open_socket(uint32_t address, uint16_t port, bool listens) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const sockaddr_in at = loopback(address, port);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
      (listens && ::listen(fd, 1024) != 0)) {
    if (fd >= 0) close(fd);
    return fail("no socket");
  }
  return fd;
}

/// Rank 0, which is real: it checks in as NCCL does, and takes the ring's connection.
class FirstRank {
 public:
  FirstRank(const nccl_decode::Layout& layout, uint64_t magic, const SocketAddress& root, int ranks)
      : layout_(layout), magic_(magic) {
    answers_ = *open_socket(INADDR_LOOPBACK, 0, true);
    ring_ = *open_socket(INADDR_LOOPBACK, 0, true);
    Bytes in(static_cast<size_t>(layout.check_in_bytes));
    std::memcpy(&in[4], &ranks, 4);
    in[12] = layout.check_in_listener >= 16 ? 1 : 0;
    put_address(in, layout.check_in_listener, answers_);
    put_address(in, layout.check_in_ring, ring_);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in to = loopback(root.address.v4_value(), root.port);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const int32_t type = 1;
    Bytes out(16);
    std::memcpy(&out[0], &magic, 8);
    std::memcpy(&out[8], &type, 4);
    std::memcpy(&out[12], &layout.check_in_bytes, 4);
    out.insert(out.end(), in.begin(), in.end());
    EXPECT_EQ(::write(fd, out.data(), out.size()), static_cast<ssize_t>(out.size()));
    close(fd);
  }
  ~FirstRank() {
    for (int fd : {answers_, ring_, answer_, previous_}) {
      if (fd >= 0) close(fd);
    }
  }
  FirstRank(const FirstRank&) = delete;
  FirstRank& operator=(const FirstRank&) = delete;

  void poll() {
    take(answers_, answer_, answered_);
    take(ring_, previous_, dialled_);
  }
  /// Next's ring address, once the root has told it.
  std::optional<nccl_decode::Endpoint> next() const {
    const auto whole = static_cast<size_t>(16 + layout_.ring_address_bytes);
    return answered_.size() < whole ? std::nullopt : nccl_decode::address_at(answered_, 16);
  }
  /// The rank before it, which is emulated, knows where its next listens.
  bool ring_stands() const {
    return dialled_.size() >= 12 && nccl_decode::u64_at(dialled_, 0) == magic_ && dialled_[8] == 1;
  }

 private:
  void put_address(Bytes& bytes, int at, int fd) const {
    sockaddr_in name{};
    socklen_t length = sizeof name;
    getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length);
    std::memcpy(&bytes[static_cast<size_t>(at)], &name, 8);
  }
  static void take(int listener, int& connection, Bytes& in) {
    if (connection < 0)
      connection = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection < 0) return;
    uint8_t buffer[512];
    const ssize_t got = read(connection, buffer, sizeof buffer);
    if (got > 0) in.insert(in.end(), buffer, buffer + got);
  }

  const nccl_decode::Layout& layout_;
  uint64_t magic_;
  int answers_ = -1, ring_ = -1, answer_ = -1, previous_ = -1;
  Bytes answered_, dialled_;
};

void check_in(uint32_t emulated) {
  const Library library;
  if (!library.told()) GTEST_SKIP() << "no libnccl.so.2 here, or it gives no unique id";
  const auto release = nccl_decode::Release::from_code(library.told()->version);
  ASSERT_TRUE(release.has_value());
  const auto* layout = nccl_decode::layout_of(*release);
  ASSERT_NE(layout, nullptr) << release->text();
  const Bytes id(library.told()->id.begin(), library.told()->id.end());
  const auto root = nccl_decode::address_at(id, 8);
  ASSERT_TRUE(root.has_value());

  NcclCommunicatorSettings settings;
  settings.version.minor = static_cast<uint32_t>(release->minor);
  settings.id = {nccl_decode::u64_at(id, 0), {root->address, root->port}};
  std::vector<IpAddress> addresses;
  for (uint32_t rank = 0; rank <= emulated; ++rank) {
    settings.ranks.push_back({rank == 0, rank});
    addresses.push_back(IpAddress::v4(0x7f010000 + rank));
  }
  Time now;
  NcclSockets* sockets = nullptr;
  SocketAdapter::Callbacks adapter_calls;
  adapter_calls.now = [&now] { return now; };
  adapter_calls.endpoint = [](NodeId, ConnectionId, const EndpointRequest&) {};
  adapter_calls.start = [](const EndpointStart&) {};
  adapter_calls.ended = [&sockets](const EndedConnection& ended) { sockets->on_ended(ended); };
  adapter_calls.listen = [](const IpAddress&, uint16_t port) {
    return open_socket(INADDR_ANY, port, true);
  };
  adapter_calls.connect = [](const IpAddress& from, const IpAddress& to,
                             uint16_t port) -> Result<int> {
    auto fd = open_socket(from.v4_value(), 0, false);
    if (!fd) return fd;
    const sockaddr_in there = loopback(to.v4_value(), port);
    if (::connect(*fd, reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0 &&
        errno != EINPROGRESS) {
      close(*fd);
      return fail("no connection");
    }
    return fd;
  };
  auto adapter = std::make_unique<SocketAdapter>(SocketAdapter::create(adapter_calls).value());
  NcclSockets::Callbacks calls;
  calls.say = [](const std::string&) {};
  NcclSockets all(*adapter, addresses, calls);
  sockets = &all;
  NcclCommunicator communicator(settings, all);
  all.attach(communicator);
  communicator.start(now);
  FirstRank first(*layout, settings.id.magic, settings.id.root, static_cast<int>(emulated) + 1);
  // Turns, not time: what is awaited comes, or the test's own time limit ends it.
  const auto done = [&] {
    if (!first.next() || !first.ring_stands()) return false;
    for (const std::string& line : communicator.waiting()) {
      if (line.find("not answered yet") != std::string::npos) return false;
    }
    return true;
  };
  while (!done() && communicator.failure().empty()) {
    all.poll();
    adapter->poll(1);
    first.poll();
    now = now + Duration::ms(1);
  }
  EXPECT_EQ(communicator.failure(), "");
  EXPECT_EQ(first.next()->address, addresses[1]);
  testing::Test::RecordProperty("release", release->text());
  adapter.reset();  // its connections know the sockets
}

TEST(NcclOfficialRoot, AnswersThree) { check_in(3); }
TEST(NcclOfficialRoot, Answers255) { check_in(255); }

}  // namespace
}  // namespace understudy
