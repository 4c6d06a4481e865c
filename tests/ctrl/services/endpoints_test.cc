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

}  // namespace
}  // namespace understudy
