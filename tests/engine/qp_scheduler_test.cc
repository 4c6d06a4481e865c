// Turns of queue pairs and finished frames in front of a node's link, without any link.
#include "dataplane/engine/send/qp_scheduler.h"

#include "tests/engine/parts.h"

namespace understudy {
namespace {

constexpr uint32_t kNode = 1;

class QpSchedulerTest : public testing::Test {
 protected:
  Parts parts{rig_config(Rate(), Duration())};
  QpScheduler& scheduler = parts.scheduler;

  /// Posts a WRITE of so many packets and puts the queue pair in line.
  void post(uint32_t slot, uint32_t packets) {
    Qp& qp = parts.state.qps[slot].qp == nullptr ? parts.connect(slot, kNode)
                                                 : *parts.state.qps[slot].qp;
    ASSERT_TRUE(qp.post(write_of(packets * qp.config().mtu)));
    ASSERT_TRUE(scheduler.line_up(slot, 0, Time()));
  }
  /// Slot of the queue pair whose packet goes next; kNoSlot if nothing goes.
  uint32_t take() {
    const QpScheduler::Next next = scheduler.take(kNode, 0, Time());
    if (next.packet == kNoPacket) return kNoSlot;
    const uint32_t slot = parts.state.qps.slot_of(parts.state.pool[next.packet].qpn);
    parts.state.pool.release(next.packet);
    return slot;
  }
};

TEST_F(QpSchedulerTest, QueuePairsTakeTurnsPacketByPacket) {
  post(3, 3);
  post(5, 2);
  post(4, 1);
  std::vector<uint32_t> order;
  for (uint32_t slot; (slot = take()) != kNoSlot;) order.push_back(slot);
  EXPECT_EQ(order, (std::vector<uint32_t>{3, 5, 4, 3, 5, 3}));
  EXPECT_FALSE(scheduler.has_more(kNode, 0));
}

TEST_F(QpSchedulerTest, OneThatHasNothingDoesNotStandInLine) {
  parts.connect(0, kNode);
  EXPECT_FALSE(scheduler.line_up(0, 0, Time()));
  EXPECT_FALSE(scheduler.has_more(kNode, 0));
  EXPECT_EQ(take(), kNoSlot);
}

TEST_F(QpSchedulerTest, NodesHaveLinesOfTheirOwn) {
  post(0, 1);
  EXPECT_EQ(scheduler.take(0, 0, Time()).packet, kNoPacket);
  EXPECT_EQ(take(), 0u);
}

TEST_F(QpSchedulerTest, FinishedFramesTakeTurnsAsOneSenderMore) {
  post(0, 3);
  const uint32_t first = parts.finished_frame(kNode), second = parts.finished_frame(kNode);
  ASSERT_TRUE(scheduler.add_finished(first, Time()));
  ASSERT_TRUE(scheduler.add_finished(second, Time()));
  EXPECT_EQ(take(), 0u);
  const QpScheduler::Next next = scheduler.take(kNode, 0, Time());
  EXPECT_EQ(next.packet, first);
  EXPECT_EQ(next.slot, kNoSlot);
  EXPECT_EQ(take(), 0u);
  EXPECT_EQ(scheduler.take(kNode, 0, Time()).packet, second);
  EXPECT_EQ(take(), 0u);
  EXPECT_EQ(take(), kNoSlot);
}

TEST_F(QpSchedulerTest, MoreFinishedFramesThanAShareOfThePoolAreRefused) {
  size_t taken = 0;
  for (;;) {
    const uint32_t frame = parts.finished_frame(kNode);
    ASSERT_NE(frame, kNoPacket);
    if (!scheduler.add_finished(frame, Time())) break;
    ++taken;
  }
  EXPECT_GE(taken, 2u);
  EXPECT_LE(taken, parts.state.pool.capacity() / 32);
}

TEST_F(QpSchedulerTest, LinesThatFindNoPacketAreFedInTurn) {
  post(0, 2);
  std::vector<uint32_t> all;
  for (uint32_t id; (id = parts.state.pool.take(PacketSide::kOutbound)) != kNoPacket;) {
    all.push_back(id);
  }
  EXPECT_EQ(take(), kNoSlot);
  EXPECT_TRUE(scheduler.is_starved());
  EXPECT_FALSE(scheduler.can_feed());
  scheduler.starve(0, 0);  // another node's line
  scheduler.starve(kNode, 0);
  for (const uint32_t id : all) parts.state.pool.release(id);
  ASSERT_TRUE(scheduler.can_feed());
  EXPECT_EQ(scheduler.take_starved(), kNode * kLines);
  EXPECT_EQ(scheduler.take_starved(), 0u);
  EXPECT_FALSE(scheduler.is_starved());
  EXPECT_EQ(take(), 0u);
}

TEST_F(QpSchedulerTest, OneThatIsRemovedLeavesTheOthersInLine) {
  for (const uint32_t removed : {0u, 1u, 2u}) {
    for (uint32_t slot = 0; slot < 3; ++slot) {
      parts.state.qps[slot].qp = nullptr;
      post(slot, 1);
    }
    scheduler.remove(removed);
    std::vector<uint32_t> order;
    for (uint32_t slot; (slot = take()) != kNoSlot;) order.push_back(slot);
    std::vector<uint32_t> expected{0, 1, 2};
    std::erase(expected, removed);
    EXPECT_EQ(order, expected) << removed;
  }
}

}  // namespace
}  // namespace understudy
