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

/// When the real node hears that its WRITE, posted at zero, is acknowledged, beside a message of 20
/// packets that the emulated node begins to send at the same time.
class EngineNicQueues : public EngineNics {
 protected:
  static constexpr uint32_t kPackets = 20, kMtu = 1024;
  const Duration kFirst = Duration::ns((kMtu + 98) * 80), kNext = Duration::ns((kMtu + 82) * 80);

  Time acknowledged_beside_data(uint16_t ahead, uint16_t again) {
    NicLimits nic;
    nic.ahead = ahead;
    nic.again = again;
    build(nic);
    EXPECT_TRUE(post(pair->emulated, to_real, 1, kPackets * kMtu));
    EXPECT_TRUE(post(pair->real, to_emulated));
    run();
    EXPECT_EQ(pair->real.endpoint.received.size(), 1u);
    EXPECT_EQ(pair->emulated.endpoint.completed.size(), 1u);
    if (pair->real.endpoint.completed.size() != 1) return Time::never();
    return pair->real.endpoint.completed[0].at;
  }
};

TEST_F(EngineNicQueues, AcknowledgementsGoFirstWithoutOne) {
  EXPECT_EQ(acknowledged_beside_data(0, 0), kZero + kFirst + kAck);
}

TEST_F(EngineNicQueues, AcknowledgementsStandBehindWhatWasHandedOver) {
  EXPECT_EQ(acknowledged_beside_data(64, 63), kZero + kFirst + kNext * (kPackets - 1) + kAck);
  // One packet is on the wire and four wait when it comes.
  EXPECT_EQ(acknowledged_beside_data(4, 3), kZero + kFirst + kNext * 4 + kAck);
  // Four were handed over, of which three wait: more follow when one is left.
  EXPECT_EQ(acknowledged_beside_data(4, 1), kZero + kFirst + kNext * 3 + kAck);
}

// Data are not slower for it, whatever is handed over at a time.
TEST_F(EngineNicQueues, TheWireIsNeverIdle) {
  Time first = Time::never();
  for (const auto& [ahead, again] : {std::pair{0, 0}, {1, 0}, {4, 1}, {8, 0}, {64, 14}}) {
    acknowledged_beside_data(static_cast<uint16_t>(ahead), static_cast<uint16_t>(again));
    const Time at = pair->real.endpoint.received[0].at;
    if (first.is_never()) first = at;
    // The acknowledgement has been sent before the end, or not.
    EXPECT_GE(at, first - Duration::ns(86 * 80)) << ahead;
    EXPECT_LE(at, first) << ahead;
  }
}

// What the program posts when a message has come stands behind the message's acknowledgement.
TEST_F(EngineNicQueues, AnAcknowledgementGoesBeforeWhatItsMessageCauses) {
  NicLimits nic;
  nic.ahead = 64;
  build(nic);
  pair->emulated.add_qp(pair->emulated.qp_config(1, 1, 0));
  pair->real.add_qp(pair->real.qp_config(1, 0, 1));
  pair->emulated.endpoint.then = [&](Time now, Qp&) {
    WorkRequest write;
    write.id = 2;
    write.length = kPackets * kMtu;
    write.rkey = to_real;
    EXPECT_TRUE(pair->emulated.shard.post(now, *pair->emulated.qps[1], write));
  };
  ASSERT_TRUE(post(pair->real, to_emulated));
  run();
  ASSERT_EQ(pair->real.endpoint.completed.size(), 1u);
  EXPECT_EQ(pair->real.endpoint.completed[0].at, kZero + kData + kAck);
  EXPECT_EQ(pair->real.endpoint.received.size(), 1u);
}

// More is handed over than the pool has packets.
TEST_F(EngineNicQueues, OneThatFindsNoRoomGoesOn) {
  NicLimits nic;
  nic.ahead = 4096;
  nic.again = 4095;
  build(nic);
  ASSERT_TRUE(post(pair->emulated, to_real, 1, 1000 * kMtu));
  ASSERT_TRUE(post(pair->real, to_emulated));
  pair->run(kZero + Duration::ms(200));
  EXPECT_EQ(pair->real.endpoint.received.size(), 1u);
  EXPECT_EQ(pair->real.endpoint.completed.size(), 1u);
  EXPECT_EQ(pair->emulated.endpoint.completed.size(), 1u);
}

TEST_F(EngineNicQueues, WhatAQueuePairThatIsGoneHandedOverStillLeaves) {
  NicLimits nic;
  nic.ahead = 8;
  build(nic);
  ASSERT_TRUE(post(pair->emulated, to_real, 1, kPackets * kMtu));
  pair->run(kZero + kFirst);
  Command remove;
  remove.kind = CommandKind::kRemoveQp;
  remove.qpn = pair->emulated.qps[0]->config().qpn;
  pair->emulated.shard.commands().push(remove);
  ASSERT_TRUE(post(pair->real, to_emulated));
  run();
  EXPECT_TRUE(pair->real.endpoint.received.empty());
}

}  // namespace
}  // namespace understudy
