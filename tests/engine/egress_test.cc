// What waits for its time at a real node's wire, without links or a shard.
#include "dataplane/engine/send/egress.h"

#include "dataplane/wire/headers.h"
#include "tests/engine/parts.h"

namespace understudy {
namespace {

constexpr uint32_t kNode = 1;

class EgressTest : public testing::Test {
 protected:
  Parts parts{rig_config(Rate(), Duration())};
  RigSink sink;
  RealPort& port = parts.state.ports[0];

  /// A frame of one byte of its own, whose last byte is at the wire at `tail`.
  void depart(uint8_t mark, Time tail, uint32_t cls = 0) {
    const uint32_t id = parts.finished_frame(kNode, 64);
    parts.state.pool.buffer(id)[0] = mark;
    parts.state.pool[id].head = parts.state.pool[id].tail = tail;
    parts.state.pool[id].kind = PacketKind::kRaw;
    parts.egress.depart(id, cls);
  }
  std::vector<int> sent() const {
    std::vector<int> marks;
    for (const SentFrame& f : sink.sent) marks.push_back(f.bytes[0]);
    return marks;
  }
  void send_due(Time now) {
    sink.now = now;
    parts.egress.send_due(port, now, sink);
  }
};

TEST_F(EgressTest, FramesLeaveAtTheirTimesAndBothClassesInOneOrder) {
  depart(1, at_ns(100));
  depart(2, at_ns(300));
  depart(3, at_ns(200), 1);
  EXPECT_EQ(parts.egress.next(port), at_ns(100));
  send_due(at_ns(99));
  EXPECT_TRUE(sent().empty());
  send_due(at_ns(250));
  EXPECT_EQ(sent(), (std::vector<int>{1, 3}));
  EXPECT_EQ(parts.egress.next(port), at_ns(300));
  send_due(at_ns(300));
  EXPECT_EQ(sent(), (std::vector<int>{1, 3, 2}));
  EXPECT_EQ(sink.sent[2].scheduled, at_ns(300));
  EXPECT_EQ(parts.egress.next(port), Time::never());
  EXPECT_TRUE(parts.state.pool.all_free());
}

TEST_F(EgressTest, ADeviceThatKeepsFramesGetsThemAhead) {
  sink.ahead = Duration::ns(50);
  depart(1, at_ns(100));
  send_due(at_ns(50));
  ASSERT_EQ(sink.sent.size(), 1u);
  EXPECT_EQ(sink.sent[0].scheduled, at_ns(100));
}

TEST_F(EgressTest, WhatTheDeviceDoesNotTakeIsTriedAgain) {
  depart(1, at_ns(100));
  depart(2, at_ns(100));
  sink.room = 1;
  send_due(at_ns(100));
  EXPECT_EQ(sent(), (std::vector<int>{1}));
  EXPECT_EQ(port.counters.tx_busy, 1u);
  sink.room = 1;
  send_due(at_ns(200));
  EXPECT_EQ(sent(), (std::vector<int>{1, 2}));
  EXPECT_EQ(port.counters.tx_frames, 2u);
}

TEST_F(EgressTest, AnswersThatBypassTheFabricGoFirst) {
  depart(1, at_ns(100));
  const uint32_t answer = parts.finished_frame(kNode, 64);
  parts.state.pool.buffer(answer)[0] = 9;
  parts.egress.send_now(port, answer, at_ns(100));
  EXPECT_EQ(parts.egress.next(port), Time::zero());
  send_due(at_ns(100));
  EXPECT_EQ(sent(), (std::vector<int>{9, 1}));
}

/// A packet of a queue pair that was removed is sent without its payload, and nobody is told.
TEST_F(EgressTest, APacketOutlivesItsQueuePair) {
  for (const bool removed : {false, true}) {
    const uint32_t slot = removed ? 1 : 0;
    Qp& qp = parts.connect(slot, kNode);
    ASSERT_TRUE(qp.post(write_of(64, 7)));
    const uint32_t id = parts.scheduler.make_packet(slot, 0, Time());
    if (removed) {
      parts.state.qps[slot].qp = nullptr;
      ++parts.state.qps[slot].generation;
    }
    parts.egress.depart(id, 0);
    send_due(at_ns(1000));
  }
  ASSERT_EQ(sink.sent.size(), 2u);
  EXPECT_EQ(sink.sent[0].bytes.size(), sink.sent[1].bytes.size());
  ASSERT_EQ(parts.endpoint.transmitted.size(), 1u);
  EXPECT_EQ(parts.endpoint.transmitted[0].id, 7u);
  EXPECT_EQ(port.counters.tx_roce, 2u);
}

}  // namespace
}  // namespace understudy
