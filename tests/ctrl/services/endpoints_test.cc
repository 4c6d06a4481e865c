// Queue pairs of services: what one takes of memory.
#include "ctrl/services/endpoints.h"

#include <gtest/gtest.h>

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/read/load.h"
#include "tests/rigs/live_bytes.h"

namespace understudy {
namespace {

constexpr char kConfig[] = R"(format = 1
[[prefix]]
nic = 0
v4 = "10.0.0.0/24"
[[node]]
name = "gpu"
real = true
link = { rate = "unlimited", latency = "1us" }
[[node]]
name = "w"
link = { rate = "unlimited", latency = "1us" }
[[port]]
real = "gpu"
device = "virtual"
)";
constexpr int kConnections = 200;

long long bytes_each(Behaviour behaviour) {
  const Config config = *load_config_text(kConfig, "test");
  Shard shard(emulator_shard(config, {0}, MacAddress{}));
  ShardControl control(shard);
  ServiceEndpoints endpoints(config, {&control});
  EndpointRequest request;
  request.behaviour = behaviour;
  request.local = *IpAddress::parse("10.0.0.2");
  request.remote = *IpAddress::parse("10.0.0.1");
  request.region_bytes = 4096;
  request.burst_messages = 10;
  request.burst_bytes = 100;
  const long long before = live_bytes;
  for (uint64_t i = 0; i < kConnections; ++i) {
    request.remote_qpn = static_cast<Qpn>(100 + i);
    EXPECT_TRUE(endpoints.create(1, i, request));
  }
  return (live_bytes - before) / kConnections;
}

TEST(Endpoints, AConnectionTakesMemoryForTheRequestsThatItMakes) {
  // Most of it is what answers 128 READs at a time; 512 requests would take 82,000 more.
  EXPECT_LT(bytes_each(Behaviour::kMemoryTarget), 16'000);
  EXPECT_LT(bytes_each(Behaviour::kReceiveSink), 16'000);
  EXPECT_LT(bytes_each(Behaviour::kSendBurst), 18'000);
  EXPECT_LT(bytes_each(Behaviour::kDatagramEcho), 1'000);
  EXPECT_LT(bytes_each(Behaviour::kWriteEcho), 20'000);  // with the memory that it exposes
}

// Two real nodes at ports of one shard.
constexpr char kTwo[] = R"(format = 1
[limits]
queue_pairs = 40
[[prefix]]
nic = 0
v4 = "10.0.0.0/24"
[[node]]
name = "gpu"
count = 2
real = true
link = { rate = "unlimited", latency = "1us" }
[[node]]
name = "w"
link = { rate = "unlimited", latency = "1us" }
[[port]]
real = "gpu0"
device = "virtual"
[[port]]
real = "gpu1"
device = "virtual"
)";

TEST(Endpoints, ARealNodeLeavesOthersTheirShare) {
  const Config config = *load_config_text(kTwo, "test");
  Shard shard(emulator_shard(config, {0, 1}, MacAddress{}));
  ShardControl control(shard);
  ServiceEndpoints endpoints(config, {&control, &control});
  uint64_t connections = 0;
  const auto made_by = [&](const char* real) {
    EndpointRequest request;
    request.behaviour = Behaviour::kMemoryTarget;
    request.local = *IpAddress::parse("10.0.0.3");
    request.remote = *IpAddress::parse(real);
    for (int made = 0;; ++made) {
      request.remote_qpn = static_cast<Qpn>(100 + connections);
      const auto ready = endpoints.create(2, connections++, request);
      if (!ready) return std::pair(made, ready.error().text);
    }
  };
  const auto [flooder, why] = made_by("10.0.0.1");
  EXPECT_EQ(flooder, 30);
  EXPECT_EQ(why,
            "no queue pair or memory region is left for gpu0, which has 30: 10 are kept for the "
            "real nodes at other ports ([limits] queue_pairs, regions)");
  const auto [other, none_left] = made_by("10.0.0.2");
  EXPECT_EQ(other, 10);
  EXPECT_EQ(none_left, "no queue pair is left on this port");
  EXPECT_EQ(made_by("10.0.0.1").first, 0);
}

// What jobs have taken is nobody's share.
TEST(Endpoints, WhatJobsLeaveIsShared) {
  const Config config = *load_config_text(kTwo, "test");
  Shard shard(emulator_shard(config, {0, 1}, MacAddress{}));
  ShardControl control(shard);
  for (int i = 0; i < 36; ++i) ASSERT_NE(control.take_qpn(), 0u);
  ServiceEndpoints endpoints(config, {&control, &control});
  EndpointRequest request;
  request.behaviour = Behaviour::kMemoryTarget;
  request.local = *IpAddress::parse("10.0.0.3");
  request.remote = *IpAddress::parse("10.0.0.1");
  for (uint64_t i = 0; i < 3; ++i) {
    request.remote_qpn = static_cast<Qpn>(100 + i);
    EXPECT_TRUE(endpoints.create(2, i, request)) << i;
  }
  EXPECT_FALSE(endpoints.create(2, 3, request)) << "the last one is kept for the other node";
}

}  // namespace
}  // namespace understudy
