// What NICs of emulated nodes take, at the queue pairs of a shard.
#include <gtest/gtest.h>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr Time kZero = Time::zero();
const Rate kSlow = Rate::bits_per_second(100'000'000);  // 80 ns a byte
const Duration kLatency = Duration::us(3);
const Duration kData = Duration::ns(162 * 80 + 2 * 3000);  // a WRITE of 64 bytes, over two links
const Duration kAck = Duration::ns(86 * 80 + 2 * 3000);

class EngineNics : public testing::Test {
 protected:
  void build(const NicLimits& nic) {
    ShardConfig config = rig_config(kSlow, kLatency);
    config.limits = {{}, nic};
    pair = std::make_unique<RigPair>(config);
    to_real = pair->real.add_region(0, 1 << 30);
    to_emulated = pair->emulated.add_region(1, 1 << 30);
    pair->emulated.add_qp(pair->emulated.qp_config(0, 1, 0));
    pair->real.add_qp(pair->real.qp_config(0, 0, 1));
  }
  static bool post(Rig& rig, Rkey rkey, uint64_t id = 1, uint32_t length = 64) {
    WorkRequest write;
    write.id = id;
    write.length = length;
    write.rkey = rkey;
    return rig.shard.post(kZero, *rig.qps[0], write);
  }
  void run() { pair->run(kZero + Duration::ms(10)); }
  std::unique_ptr<RigPair> pair;
  Rkey to_real = 0, to_emulated = 0;
};

NicLimits slow_nic() {
  NicLimits nic;
  nic.lead = Duration::ns(450);
  nic.tail = Duration::ns(200);
  nic.ack_delay = Duration::ns(120);
  return nic;
}

// Rig's endpoint hears at once: what its NIC takes to tell is added to what it posts.
TEST_F(EngineNics, WhatIsPostedReachesTheNicLater) {
  const NicLimits nic = slow_nic();
  build(nic);
  ASSERT_TRUE(post(pair->emulated, to_real));
  run();
  ASSERT_EQ(pair->real.endpoint.received.size(), 1u);
  EXPECT_EQ(pair->real.endpoint.received[0].at, kZero + nic.lead + nic.tail + kData);
  ASSERT_EQ(pair->emulated.endpoint.completed.size(), 1u);
  EXPECT_EQ(pair->emulated.endpoint.completed[0].at, pair->real.endpoint.received[0].at + kAck);
}

TEST_F(EngineNics, ARequestIsAnsweredAWhileAfterItCame) {
  const NicLimits nic = slow_nic();
  build(nic);
  ASSERT_TRUE(post(pair->real, to_emulated));
  run();
  ASSERT_EQ(pair->real.endpoint.completed.size(), 1u);
  EXPECT_EQ(pair->real.endpoint.completed[0].at, kZero + kData + nic.ack_delay + kAck);
}

TEST_F(EngineNics, ASendQueueHasRoomForWhatIsOnItsWay) {
  build(slow_nic());
  const uint32_t room = pair->emulated.qps[0]->config().send_queue;
  for (uint32_t i = 0; i < room; ++i) ASSERT_TRUE(post(pair->emulated, to_real, i)) << i;
  EXPECT_FALSE(post(pair->emulated, to_real, room));
  run();
  EXPECT_EQ(pair->real.endpoint.received.size(), room);
  EXPECT_EQ(pair->emulated.endpoint.completed.size(), room);
}

TEST_F(EngineNics, WhatAQueuePairThatIsGoneWasSentIsForgotten) {
  build(slow_nic());
  ASSERT_TRUE(post(pair->emulated, to_real));
  Command remove;
  remove.kind = CommandKind::kRemoveQp;
  remove.qpn = pair->emulated.qps[0]->config().qpn;
  pair->emulated.shard.commands().push(remove);
  run();
  EXPECT_TRUE(pair->real.endpoint.received.empty());
}

TEST_F(EngineNics, WhatAQueuePairTakesNoMoreIsFlushed) {
  build(slow_nic());
  ASSERT_TRUE(post(pair->emulated, to_real, 7));
  pair->emulated.qps[0]->modify(kZero, QpState::kError);
  run();
  EXPECT_TRUE(pair->real.endpoint.received.empty());
  ASSERT_EQ(pair->emulated.endpoint.completed.size(), 1u);
  EXPECT_EQ(pair->emulated.endpoint.completed[0].id, 7u);
  EXPECT_EQ(pair->emulated.endpoint.failures, 1u);
}

// Packets of 1,024 bytes take 90 us of the link; the NIC takes 100 us for each.
TEST_F(EngineNics, PacketsAreNoCloserThanTheNicAllows) {
  NicLimits nic;
  nic.packets.least = Duration::us(100);
  build(nic);
  constexpr uint32_t kPackets = 8;
  ASSERT_TRUE(post(pair->emulated, to_real, 1, kPackets * 1024));
  run();
  ASSERT_EQ(pair->real.endpoint.received.size(), 1u);
  // The last one goes on over the real node's link, which is in step with it.
  const Duration took = pair->real.endpoint.received[0].at - kZero;
  EXPECT_GE(took, nic.packets.least * kPackets + kLatency * 2);
  EXPECT_LT(took, nic.packets.least * (kPackets + 1) + kLatency * 2);
}

}  // namespace
}  // namespace understudy
