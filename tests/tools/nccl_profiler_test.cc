// The profiler plugin, loaded and called as NCCL of each version of the interface does. NCCL itself
// does not run without a GPU.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "ctrl/peers/feed.h"
#include "tools/nccl_profiler/profiler_interface.h"

namespace understudy {
namespace {

/// An emulated node that listens.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 4), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    where_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~Listener() {
    if (connection_ >= 0) close(connection_);
    close(fd_);
  }
  const std::string& where() const { return where_; }
  bool called() const {
    pollfd p{fd_, POLLIN, 0};
    return poll(&p, 1, 0) > 0;
  }

  /// The next `count` operations of the plugin's connection.
  std::vector<FedOperation> take(size_t count) {
    if (connection_ < 0) connection_ = accept(fd_, nullptr, nullptr);
    std::vector<FedOperation> operations;
    uint8_t bytes[4096];
    while (operations.size() < count) {
      const ssize_t n = recv(connection_, bytes, sizeof bytes, 0);
      if (n <= 0) break;
      EXPECT_TRUE(decoder_.take({bytes, static_cast<size_t>(n)}, operations)) << decoder_.error();
    }
    return operations;
  }
  uint64_t dropped() const { return decoder_.dropped(); }

 private:
  int fd_;
  int connection_ = -1;
  std::string where_;
  FeedDecoder decoder_;
};

/// The plugin in a fresh state, with UNDERSTUDY_FEED as given; unset if null.
class Plugin {
 public:
  explicit Plugin(const char* feed) {
    if (feed == nullptr) {
      unsetenv("UNDERSTUDY_FEED");
    } else {
      setenv("UNDERSTUDY_FEED", feed, 1);
    }
    library_ = dlopen(UNDERSTUDY_NCCL_PROFILER, RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) return;
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  ~Plugin() {
    dlclose(library_);
    unsetenv("UNDERSTUDY_FEED");
  }
  template <typename Table>
  Table& table(const char* symbol) const {
    return *static_cast<Table*>(dlsym(library_, symbol));
  }

 private:
  void* library_;
};

constexpr int kBoth = nccl::kCollective | nccl::kPointToPoint;

template <typename Event>
Event collective() {
  Event e{};
  e.kind = nccl::kCollective;
  e.rank = 2;
  e.collective.sequence = 41;
  e.collective.count = 1000;
  e.collective.root = 1;
  e.collective.channels = 8;
  e.collective.warps = 16;
  return e;
}
template <typename Event>
void name(Event& e) {
  e.collective.function = "Broadcast";
  e.collective.type = "ncclBfloat16";
  e.collective.algorithm = "RING";
  e.collective.protocol = "SIMPLE";
}
template <typename Event>
Event point_to_point() {
  Event e{};
  e.kind = nccl::kPointToPoint;
  e.rank = 2;
  e.point_to_point.count = 500;
  e.point_to_point.peer = 3;
  return e;
}

void expect_broadcast(const FedOperation& fed, uint64_t communicator) {
  EXPECT_EQ(fed.rank, 2u);
  EXPECT_EQ(fed.communicator, communicator);
  EXPECT_EQ(fed.sequence, 41u);
  EXPECT_EQ(fed.operation.collective, Collective::kBroadcast);
  EXPECT_EQ(fed.operation.type, DataType::kBfloat16);
  EXPECT_EQ(fed.operation.count, 1000u);
  EXPECT_EQ(fed.operation.root, 1u);
  EXPECT_EQ(fed.operation.algorithm, Algorithm::kRing);
  EXPECT_EQ(fed.operation.protocol, Protocol::kSimple);
  EXPECT_EQ(fed.operation.channels, 8u);
}
void expect_send(const FedOperation& fed, uint32_t channels) {
  EXPECT_EQ(fed.operation.collective, Collective::kSendRecv);
  EXPECT_TRUE(fed.sends);
  EXPECT_EQ(fed.peer, 3u);
  EXPECT_EQ(fed.operation.bytes(), 2000u);
  EXPECT_EQ(fed.operation.channels, channels);
}

/// One collective, one send, and what the plugin does not ask for.
template <typename Table, typename Event>
void play(Table& table, void* context, Event broadcast, Event send) {
  void* handle = &table;
  EXPECT_EQ(table.start(context, &handle, &broadcast), nccl::kSuccess);
  EXPECT_EQ(handle, nullptr);
  EXPECT_EQ(table.record(nullptr, 8, nullptr), nccl::kSuccess);
  EXPECT_EQ(table.stop(nullptr), nccl::kSuccess);
  EXPECT_EQ(table.start(context, &handle, &send), nccl::kSuccess);
  Event group{};
  group.kind = 1;
  EXPECT_EQ(table.start(context, &handle, &group), nccl::kSuccess);
  EXPECT_EQ(table.finalize(context), nccl::kSuccess);
}

TEST(NcclProfiler, TellsOperationsOfEveryVersion) {
  Listener listener;
  const Plugin plugin(listener.where().c_str());
  void* context = nullptr;
  int mask = -1;

  auto& v1 = plugin.table<nccl::TableV1>("ncclProfiler_v1");
  ASSERT_EQ(v1.init(&context, &mask), nccl::kSuccess);
  EXPECT_EQ(mask, kBoth);
  auto c1 = collective<nccl::EventV1>();
  c1.collective.communicator = 11;
  c1.collective.function = 0;
  c1.collective.type = 9;
  c1.collective.algorithm = 1;
  c1.collective.protocol = 2;
  auto p1 = point_to_point<nccl::EventV1>();
  p1.point_to_point.function = 6;
  p1.point_to_point.type = 7;
  play(v1, context, c1, p1);

  const auto named = [](auto event) {
    event.point_to_point.function = "Send";
    event.point_to_point.type = "ncclFloat32";
    return event;
  };
  auto& v2 = plugin.table<nccl::TableV2>("ncclProfiler_v2");
  ASSERT_EQ(v2.init(&context, &mask), nccl::kSuccess);
  auto c2 = collective<nccl::EventV2>();
  name(c2);
  c2.collective.communicator = 12;
  play(v2, context, c2, named(point_to_point<nccl::EventV2>()));

  auto& v3 = plugin.table<nccl::TableV3>("ncclProfiler_v3");
  ASSERT_EQ(v3.init(&context, &mask), nccl::kSuccess);
  auto c3 = collective<nccl::EventV3>();
  name(c3);
  c3.collective.communicator = 13;
  play(v3, context, c3, named(point_to_point<nccl::EventV3>()));

  auto& v4 = plugin.table<nccl::TableV4>("ncclProfiler_v4");
  ASSERT_EQ(v4.init(&context, &mask, "world", 14, 4, 4, 2, nullptr), nccl::kSuccess);
  auto c4 = collective<nccl::EventV4>();
  name(c4);
  auto p4 = named(point_to_point<nccl::EventV4>());
  p4.point_to_point.channels = 2;
  play(v4, context, c4, p4);

  auto& v5 = plugin.table<nccl::TableV5>("ncclProfiler_v5");
  ASSERT_EQ(v5.init(&context, 15, &mask, "world", 4, 4, 2, nullptr), nccl::kSuccess);
  EXPECT_EQ(mask, kBoth);
  auto c5 = collective<nccl::EventV5>();
  name(c5);
  auto p5 = named(point_to_point<nccl::EventV5>());
  p5.point_to_point.channels = 2;
  play(v5, context, c5, p5);

  const auto fed = listener.take(10);
  ASSERT_EQ(fed.size(), 10u);
  for (uint32_t version = 1; version <= 5; ++version) {
    SCOPED_TRACE("version " + std::to_string(version));
    expect_broadcast(fed[2 * version - 2], 10 + version);
    expect_send(fed[2 * version - 1], version >= 4 ? 2 : 0);
  }
  EXPECT_EQ(listener.dropped(), 0u);
}

/// One collective alone, and a group of three sends and receives, as NCCL launches them.
template <typename Table, typename Event>
void play_groups(Table& table, void* context, Event broadcast, Event send) {
  const auto group = [&](const std::vector<Event>& events) {
    Event begin{};
    begin.kind = nccl::kGroup;
    void* handle = nullptr;
    EXPECT_EQ(table.start(context, &handle, &begin), nccl::kSuccess);
    ASSERT_NE(handle, nullptr);
    for (Event event : events) {
      if constexpr (requires { event.collective.group; }) {
        (event.kind == nccl::kCollective ? event.collective.group : event.point_to_point.group) =
            handle;
      } else {
        event.parent = handle;
      }
      void* own = nullptr;
      EXPECT_EQ(table.start(context, &own, &event), nccl::kSuccess);
      EXPECT_EQ(own, nullptr);
    }
    EXPECT_EQ(table.stop(handle), nccl::kSuccess);
  };
  group({broadcast});
  group({send, send, send});
  EXPECT_EQ(table.finalize(context), nccl::kSuccess);
}

TEST(NcclProfiler, TellsGroups) {
  Listener listener;
  const Plugin plugin(listener.where().c_str());
  void* context = nullptr;
  int mask = -1;
  auto& v3 = plugin.table<nccl::TableV3>("ncclProfiler_v3");
  ASSERT_EQ(v3.init(&context, &mask), nccl::kSuccess);
  EXPECT_EQ(mask, kBoth);
  auto c3 = collective<nccl::EventV3>();
  name(c3);
  auto p3 = point_to_point<nccl::EventV3>();
  p3.point_to_point.function = "Send";
  p3.point_to_point.type = "ncclFloat32";
  play_groups(v3, context, c3, p3);
  auto& v5 = plugin.table<nccl::TableV5>("ncclProfiler_v5");
  ASSERT_EQ(v5.init(&context, 15, &mask, "world", 4, 4, 2, nullptr), nccl::kSuccess);
  auto c5 = collective<nccl::EventV5>();
  name(c5);
  auto p5 = point_to_point<nccl::EventV5>();
  p5.point_to_point.function = "Recv";
  p5.point_to_point.type = "ncclFloat32";
  play_groups(v5, context, c5, p5);

  const auto fed = listener.take(8);
  ASSERT_EQ(fed.size(), 8u);
  for (size_t i = 0; i < 8; i += 4) {
    SCOPED_TRACE(i);
    expect_broadcast(fed[i], i == 0 ? 0 : 15);
    EXPECT_NE(fed[i].group, 0u);
    EXPECT_TRUE(fed[i].last);
    for (size_t j = 1; j < 4; ++j) {
      EXPECT_EQ(fed[i + j].sends, i == 0);
      EXPECT_EQ(fed[i + j].group, fed[i].group + 1);
      EXPECT_EQ(fed[i + j].last, j == 3);
    }
  }
}

/// Without a feed NCCL is asked for no event at all.
TEST(NcclProfiler, DoesNothingUnasked) {
  for (const char* feed : {static_cast<const char*>(nullptr), "nonsense", ":1", "host.example:1",
                           "127.0.0.1:", "127.0.0.1:99999999"}) {
    const Plugin plugin(feed);
    auto& table = plugin.table<nccl::TableV5>("ncclProfiler_v5");
    void* context = &table;
    int mask = -1;
    EXPECT_EQ(table.init(&context, 1, &mask, nullptr, 4, 4, 2, nullptr), nccl::kSuccess);
    EXPECT_EQ(mask, 0) << (feed == nullptr ? "unset" : feed);
    auto event = collective<nccl::EventV5>();
    void* handle = nullptr;
    EXPECT_EQ(table.start(context, &handle, &event), nccl::kSuccess);
    EXPECT_EQ(table.finalize(context), nccl::kSuccess);
  }
}

/// A reader that stands still costs records, not time; it learns how many.
TEST(NcclProfiler, DropsWhatNobodyTakes) {
  Listener listener;
  const Plugin plugin(listener.where().c_str());
  auto& table = plugin.table<nccl::TableV4>("ncclProfiler_v4");
  void* context = nullptr;
  int mask = 0;
  ASSERT_EQ(table.init(&context, &mask, nullptr, 1, 4, 4, 2, nullptr), nccl::kSuccess);
  auto event = collective<nccl::EventV4>();
  name(event);
  void* handle = nullptr;
  constexpr uint64_t kMany = 200'000;  // 25 MB, more than sockets hold
  for (uint64_t i = 0; i < kMany; ++i) {
    event.collective.sequence = i;
    ASSERT_EQ(table.start(context, &handle, &event), nccl::kSuccess);
  }
  // What comes once there is room tells what is missing: every operation was taken or dropped.
  uint64_t next = kMany, taken = 0;
  while (listener.dropped() == 0) {
    const auto fed = listener.take(1);
    ASSERT_FALSE(fed.empty());
    taken += fed.size();
    EXPECT_EQ(fed.back().sequence + 1, taken + listener.dropped());
    event.collective.sequence = next++;
    ASSERT_EQ(table.start(context, &handle, &event), nccl::kSuccess);
  }
  EXPECT_EQ(table.finalize(context), nccl::kSuccess);
}

/// The reader goes away.
TEST(NcclProfiler, OutlivesItsReader) {
  auto listener = std::make_unique<Listener>();
  const Plugin plugin(listener->where().c_str());
  auto& table = plugin.table<nccl::TableV5>("ncclProfiler_v5");
  void* context = nullptr;
  int mask = 0;
  ASSERT_EQ(table.init(&context, 1, &mask, nullptr, 4, 4, 2, nullptr), nccl::kSuccess);
  auto event = collective<nccl::EventV5>();
  name(event);
  void* handle = nullptr;
  ASSERT_EQ(table.start(context, &handle, &event), nccl::kSuccess);
  ASSERT_EQ(listener->take(1).size(), 1u);
  listener.reset();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(table.start(context, &handle, &event), nccl::kSuccess);
  }
  EXPECT_EQ(table.finalize(context), nccl::kSuccess);
}

}  // namespace
}  // namespace understudy
