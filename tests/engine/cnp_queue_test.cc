// Marks that are answered by CNPs, and those that wait for their node's link.
#include "dataplane/engine/send/cnp_queue.h"

#include "tests/engine/parts.h"

namespace understudy {
namespace {

constexpr uint32_t kNode = 1;

class CnpQueueTest : public testing::Test {
 protected:
  CnpQueueTest() {
    for (uint32_t slot = 0; slot < 3; ++slot) parts.connect(slot, kNode);
  }
  bool mark(uint32_t slot, Time now) {
    Packet packet;
    packet.tos = kCongestionExperienced;
    return parts.cnps.note_mark(packet, slot, now);
  }
  uint32_t take(Time now) {
    const uint32_t id = parts.cnps.take(kNode, now);
    const Packet& p = parts.state.pool[id];
    EXPECT_EQ(p.out.fields.opcode, Opcode::kCnp);
    const uint32_t slot = parts.state.qps.slot_of(p.qpn);
    parts.state.pool.release(id);
    return slot;
  }
  Parts parts{rig_config(Rate(), Duration())};
};

TEST_F(CnpQueueTest, UnmarkedPacketsAskForNothing) {
  EXPECT_FALSE(parts.cnps.note_mark(Packet(), 0, Time()));
  EXPECT_EQ(parts.cnps.first(kNode), kNoSlot);
  EXPECT_EQ(parts.state.ports[0].counters.ce_delivered, 0u);
}

TEST_F(CnpQueueTest, TheyLeaveInTheOrderOfTheirMarks) {
  for (const uint32_t slot : {2u, 0u, 1u}) EXPECT_TRUE(mark(slot, Time()));
  for (const uint32_t slot : {2u, 0u, 1u}) EXPECT_EQ(take(Time()), slot);
  EXPECT_EQ(parts.cnps.first(kNode), kNoSlot);
}

TEST_F(CnpQueueTest, OnePerQueuePairAndInterval) {
  const Duration interval = parts.state.config.cnp.interval;
  EXPECT_TRUE(mark(0, Time()));
  EXPECT_FALSE(mark(0, Time()));  // the first one waits still
  take(at_ns(100));
  EXPECT_FALSE(mark(0, at_ns(99) + interval));
  EXPECT_TRUE(mark(0, at_ns(100) + interval));
  EXPECT_EQ(parts.state.ports[0].counters.cnp_suppressed, 2u);
}

TEST_F(CnpQueueTest, ARemovedQueuePairTakesItsCnpWithIt) {
  for (uint32_t removed = 0; removed < 3; ++removed) {
    const Time now = at_ns(1'000'000 * (removed + 1));
    for (uint32_t slot = 0; slot < 3; ++slot) ASSERT_TRUE(mark(slot, now));
    parts.cnps.remove(removed);
    for (uint32_t slot = 0; slot < 3; ++slot) {
      if (slot != removed) {
        EXPECT_EQ(take(now), slot);
      }
    }
    EXPECT_EQ(parts.cnps.first(kNode), kNoSlot);
  }
}

}  // namespace
}  // namespace understudy
