// When packets leave and arrive, against closed forms, to the picosecond.
#include <gtest/gtest.h>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr Time kZero = Time::zero();
const Rate kSlow = Rate::bits_per_second(100'000'000);  // 80 ns a byte
const Duration kLatency = Duration::us(3);
constexpr uint32_t kMtu = 1024;

/// Bytes of the link that a WRITE of `length` takes: untagged IPv4 frames and their overhead.
uint64_t write_wire_bytes(uint64_t length, uint32_t mtu = kMtu) {
  const uint64_t packets = std::max<uint64_t>(1, (length + mtu - 1) / mtu);
  const uint64_t pad = (4 - length % 4) % 4;
  return packets * (14 + 20 + 8 + 12 + 4 + 24) + 16 + length + pad;
}
constexpr uint64_t kAckWireBytes = 14 + 20 + 8 + 12 + 4 + 4 + 24;
constexpr uint64_t kReadRequestWireBytes = kAckWireBytes + 12;

WorkRequest write_of(uint32_t length, Rkey rkey, uint64_t id = 1) {
  WorkRequest r;
  r.id = id;
  r.length = length;
  r.rkey = rkey;
  return r;
}

class Timing : public testing::Test {
 protected:
  void build(const ShardConfig& config) {
    pair = std::make_unique<RigPair>(config);
    rkey_real = pair->real.add_region(0, 1 << 30);
    rkey_emulated = pair->emulated.add_region(1, 1 << 30);
  }
  /// A connection between node 0 and emulated node `node`.
  void connect(uint32_t slot, NodeId node = 1) {
    pair->emulated.add_qp(pair->emulated.qp_config(slot, node, 0));
    QpConfig peer = pair->real.qp_config(slot, 0, node);
    pair->real.add_qp(peer);
  }
  Qp& emulated(size_t i) { return *pair->emulated.qps[i]; }
  Qp& real(size_t i) { return *pair->real.qps[i]; }
  void post(Rig& rig, Qp& qp, const WorkRequest& r, Time at = kZero) {
    ASSERT_TRUE(rig.shard.post(at, qp, r));
  }
  std::unique_ptr<RigPair> pair;
  Rkey rkey_real = 0, rkey_emulated = 0;
};

// A device that sends at stated times gets frames before: the same frames with the same times, none
// earlier than agreed, and none is late.
TEST_F(Timing, ADeviceMayGetFramesBeforeTheirTime) {
  std::vector<Time> scheduled;
  for (const Duration ahead : {Duration(), Duration::us(200)}) {
    build(rig_config(kSlow, kLatency));
    connect(0);
    Rig& rig = pair->emulated;
    rig.sink.ahead = ahead;
    post(rig, emulated(0), write_of(8 * kMtu, rkey_real));
    rig.advance(Duration::ms(1));
    ASSERT_EQ(rig.sink.sent.size(), 8u);
    uint64_t early = 0;
    for (const SentFrame& frame : rig.sink.sent) {
      EXPECT_GE(frame.actual + ahead, frame.scheduled);
      early += frame.actual < frame.scheduled ? 1 : 0;
      if (ahead == Duration()) scheduled.push_back(frame.scheduled);
    }
    EXPECT_EQ(early > 0, ahead > Duration());
    for (size_t i = 0; i < scheduled.size(); ++i) {
      EXPECT_EQ(rig.sink.sent[i].scheduled, scheduled[i]) << i;
    }
    ShardSnapshot snapshot;
    rig.shard.fit(snapshot);
    rig.shard.snapshot(snapshot, rig.now);
    EXPECT_EQ(snapshot.counters.lateness.max(), Duration());
  }
}

TEST_F(Timing, WriteStreamArrivesAtTheLinksRate) {
  for (uint64_t bps : {100'000'000ull, 3'000'000'000ull, 399'999'999'937ull}) {
    const Rate rate = Rate::bits_per_second(bps);
    ShardConfig config = rig_config(rate, kLatency);
    config.packets = 2048;
    build(config);
    connect(0);
    uint64_t wire = 0;
    std::vector<Time> expected;
    for (uint64_t i = 0; i < 200; ++i) {
      const auto length = static_cast<uint32_t>(i * 977 % 9000);
      post(pair->emulated, emulated(0), write_of(length, rkey_real, i));
      wire += write_wire_bytes(length);
      expected.push_back(kZero + kLatency * 2 + rate.time_for(wire));
    }
    pair->run(kZero + Duration::ms(300));
    const auto& received = pair->real.endpoint.received;
    ASSERT_EQ(received.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(received[i].at, expected[i]) << i << " at " << bps;
    }
  }
}

TEST_F(Timing, OneWriteAndItsAckByHand) {
  build(rig_config(kSlow, kLatency));
  connect(0);
  post(pair->emulated, emulated(0), write_of(64, rkey_real));
  pair->run(kZero + Duration::ms(1));
  // 82 + 16 + 64 bytes of link at 80 ns, then both latencies.
  const Time arrival = kZero + Duration::ns(162 * 80 + 2 * 3000);
  ASSERT_EQ(pair->real.endpoint.received.size(), 1u);
  EXPECT_EQ(pair->real.endpoint.received[0].at, arrival);
  // The ACK leaves at once and takes 86 bytes of both links, in cut-through.
  ASSERT_EQ(pair->emulated.endpoint.completed.size(), 1u);
  EXPECT_EQ(pair->emulated.endpoint.completed[0].at, arrival + Duration::ns(86 * 80 + 2 * 3000));
}

TEST_F(Timing, PacketsOfTheRealNodeWaitTheirTimeToo) {
  build(rig_config(kSlow, kLatency));
  connect(0);
  uint64_t wire = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    post(pair->real, real(0), write_of(3000, rkey_emulated, i));
    wire += write_wire_bytes(3000);
  }
  pair->run(kZero + Duration::ms(100));
  const auto& received = pair->emulated.endpoint.received;
  ASSERT_EQ(received.size(), 20u);
  EXPECT_EQ(received.back().at, kZero + kLatency * 2 + kSlow.time_for(wire));
  EXPECT_EQ(received.front().at, kZero + kLatency * 2 + kSlow.time_for(wire / 20));
}

TEST_F(Timing, ReadDataArePacedLikeWrites) {
  build(rig_config(kSlow, kLatency));
  connect(0);
  WorkRequest read = write_of(5000, rkey_emulated);
  read.op = WorkOp::kRead;
  post(pair->real, real(0), read);
  pair->run(kZero + Duration::ms(10));
  ASSERT_EQ(pair->real.endpoint.completed.size(), 1u);
  // Five responses; FIRST and LAST carry an AETH of 4 bytes.
  const uint64_t wire = kReadRequestWireBytes + 5 * 82 + 2 * 4 + 5000;
  EXPECT_EQ(pair->real.endpoint.completed[0].at, kZero + kLatency * 4 + kSlow.time_for(wire));
}

TEST_F(Timing, IncastSharesTheLastLink) {
  // Three emulated senders at once: the real node's link is the bottleneck, and stays busy.
  build(rig_config(kSlow, kLatency, 4));
  uint64_t wire = 0;
  for (NodeId node : {1u, 2u, 3u}) {
    connect(node - 1, node);
    for (uint32_t i = 0; i < 10; ++i) {
      post(pair->emulated, emulated(node - 1), write_of(4000, rkey_real, i));
      wire += write_wire_bytes(4000);
    }
  }
  pair->run(kZero + Duration::ms(100));
  const auto& received = pair->real.endpoint.received;
  ASSERT_EQ(received.size(), 30u);
  EXPECT_EQ(received.back().at, kZero + kLatency * 2 + kSlow.time_for(wire));
}

TEST_F(Timing, SlowSendersFillAFastLinkTogether) {
  // Four links of 100 Mbit/s into one of 400: nobody waits for anybody.
  ShardConfig config = rig_config(kSlow, kLatency, 5);
  config.rates[0] = Rate::bits_per_second(400'000'000);
  build(config);
  for (NodeId node : {1u, 2u, 3u, 4u}) {
    connect(node - 1, node);
    for (uint32_t i = 0; i < 10; ++i) {
      post(pair->emulated, emulated(node - 1), write_of(4000, rkey_real, i));
    }
  }
  pair->run(kZero + Duration::ms(100));
  const auto& received = pair->real.endpoint.received;
  ASSERT_EQ(received.size(), 40u);
  const Time alone = kZero + kLatency * 2 + kSlow.time_for(10 * write_wire_bytes(4000));
  // The four last packets meet at the fast link; each takes a quarter of its time there.
  const Duration packet = Rate::bits_per_second(400'000'000).time_for(write_wire_bytes(1024));
  EXPECT_GE(received.back().at, alone);
  EXPECT_LE(received.back().at, alone + packet * 4);
}

TEST_F(Timing, FastSenderIntoASlowLinkQueues) {
  ShardConfig config = rig_config(kSlow, kLatency);
  config.rates[1] = Rate::bits_per_second(10'000'000'000);
  build(config);
  connect(0);
  post(pair->emulated, emulated(0), write_of(100'000, rkey_real));
  pair->run(kZero + Duration::ms(100));
  ASSERT_EQ(pair->real.endpoint.received.size(), 1u);
  EXPECT_EQ(pair->real.endpoint.received[0].at,
            kZero + kLatency * 2 + kSlow.time_for(write_wire_bytes(100'000)));
}

TEST_F(Timing, WithoutPacingOnlyLatencyIsLeft) {
  ShardConfig config = rig_config(kSlow, kLatency);
  config.pacing = false;
  build(config);
  connect(0);
  for (uint32_t i = 0; i < 5; ++i) post(pair->emulated, emulated(0), write_of(9000, rkey_real, i));
  pair->run(kZero + Duration::ms(1));
  const auto& received = pair->real.endpoint.received;
  ASSERT_EQ(received.size(), 5u);
  for (const auto& r : received) EXPECT_EQ(r.at, kZero + kLatency * 2);
}

TEST_F(Timing, AWireThatIsTheLinkIsNotSerialisedTwice) {
  // Physical and modelled rate are equal: a frame's last byte leaves the wire at its modelled time.
  ShardConfig config = rig_config(kSlow, kLatency);
  config.wires[0].physical = kSlow;
  build(config);
  connect(0);
  post(pair->emulated, emulated(0), write_of(10'000, rkey_real));
  pair->run(kZero + Duration::ms(10));
  ASSERT_EQ(pair->to_real.size(), 10u);
  uint64_t wire = 0;
  for (const SentFrame& frame : pair->to_real) {
    const uint64_t bytes = frame.bytes.size() + kEthernetOverheadBytes;
    // Handed over when its first byte is due; the wire adds the rest.
    EXPECT_EQ(frame.scheduled, kZero + kLatency * 2 + kSlow.time_for(wire));
    wire += bytes;
  }
}

TEST_F(Timing, AcksWaitForThePacketUnderWay) {
  build(rig_config(kSlow, kLatency));
  connect(0);
  connect(1);
  post(pair->emulated, emulated(0), write_of(1 << 20, rkey_real));
  post(pair->real, real(1), write_of(64, rkey_emulated));
  pair->run(kZero + Duration::ms(5));
  ASSERT_EQ(pair->emulated.endpoint.received.size(), 1u);
  ASSERT_EQ(pair->real.endpoint.completed.size(), 1u);
  const Time arrival = pair->emulated.endpoint.received[0].at;
  EXPECT_EQ(arrival, kZero + Duration::ns(162 * 80) + kLatency * 2);
  // The packet under way ends (FIRST is 16 bytes longer), then the ACK goes, as flows' do.
  const Time first = kZero + kSlow.time_for(82 + 16 + kMtu);
  ASSERT_LT(arrival, first);
  EXPECT_EQ(pair->real.endpoint.completed[0].at,
            first + kSlow.time_for(kAckWireBytes) + kLatency * 2);
}

// A queue pair's turn among others is that of what it was asked to send: its ACKs do not take it.
TEST_F(Timing, WhoAcknowledgesKeepsItsTurn) {
  build(rig_config(kSlow, kLatency));
  for (uint32_t i = 0; i < 3; ++i) connect(i);
  post(pair->real, real(1), write_of(64, rkey_emulated));
  for (uint32_t i = 0; i < 3; ++i) post(pair->emulated, emulated(i), write_of(4 * kMtu, rkey_real));
  pair->run(kZero + Duration::ms(50));
  std::vector<Qpn> data;  // in order of departure
  for (const SentFrame& frame : pair->to_real) {
    FrameView view;
    RoceView roce;
    ASSERT_EQ(parse_frame(frame.bytes, view, roce), FrameKind::kRoce);
    if (roce.info().is_request()) data.push_back(roce.dest_qpn);
  }
  ASSERT_EQ(data.size(), 12u);
  for (size_t i = 3; i < data.size(); ++i) EXPECT_EQ(data[i], data[i - 3]) << i;
}

TEST_F(Timing, AcksInAClassOfTheirOwnPassTheData) {
  ShardConfig config = rig_config(kSlow, kLatency);
  config.separate_control = true;
  build(config);
  connect(0);
  connect(1);
  post(pair->emulated, emulated(0), write_of(1 << 20, rkey_real));
  post(pair->real, real(1), write_of(64, rkey_emulated));
  pair->run(kZero + Duration::ms(200));
  ASSERT_GE(pair->real.endpoint.completed.size(), 1u);
  // The WRITE to the emulated node counts as a credit here, so it passes the data as well.
  const Time arrival = pair->emulated.endpoint.received[0].at;
  EXPECT_EQ(arrival, kZero + Duration::ns(162 * 80) + kLatency * 2);
  EXPECT_EQ(pair->real.endpoint.completed[0].at,
            arrival + kSlow.time_for(kAckWireBytes) + kLatency * 2);
  // And the data do not feel it.
  ASSERT_EQ(pair->real.endpoint.received.size(), 1u);
  EXPECT_EQ(pair->real.endpoint.received[0].at,
            kZero + kLatency * 2 + kSlow.time_for(write_wire_bytes(1 << 20)));
}

TEST_F(Timing, TwoStreamsOfOneNodeTakeTurns) {
  build(rig_config(kSlow, kLatency));
  connect(0);
  connect(1);
  post(pair->emulated, emulated(0), write_of(20'480, rkey_real));
  post(pair->emulated, emulated(1), write_of(20'480, rkey_real));
  pair->run(kZero + Duration::ms(100));
  std::vector<Qpn> order;
  for (const SentFrame& frame : pair->to_real) order.push_back(Parsed(frame.bytes).roce.dest_qpn);
  ASSERT_EQ(order.size(), 40u);
  // The first packet left before the second stream was posted.
  for (size_t i = 3; i < 39; ++i) EXPECT_EQ(order[i], order[i - 2]) << i;
  EXPECT_NE(order[1], order[2]);
}

TEST_F(Timing, ALinkChangesAtItsTime) {
  build(rig_config(kSlow, kLatency));
  connect(0);
  const Duration packet = kSlow.time_for(82 + kMtu);
  const Time first = kZero + kSlow.time_for(82 + 16 + kMtu);
  Command change;
  change.kind = CommandKind::kSetLink;
  change.node = 1;
  change.change.rate = Rate::bits_per_second(50'000'000);
  change.effective = first + packet * 3 + packet / 2;  // in the middle of the fifth packet
  pair->emulated.shard.commands().push(change);
  post(pair->emulated, emulated(0), write_of(10 * kMtu, rkey_real));
  pair->run(kZero + Duration::ms(100));
  ASSERT_EQ(pair->to_real.size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    // The packet on the wire keeps its rate; five more take twice their time.
    const Duration after = i < 5 ? packet * static_cast<int64_t>(i)
                                 : packet * 4 + packet * 2 * static_cast<int64_t>(i - 4);
    EXPECT_EQ(pair->to_real[i].scheduled, first + after + kLatency * 2) << i;
  }
  Reply reply;
  ASSERT_TRUE(pair->emulated.shard.replies().pop(reply));
  EXPECT_EQ(reply.at, change.effective);
}

TEST_F(Timing, ALatencyChangesAtItsTime) {
  build(rig_config(kSlow, kLatency));
  connect(0);
  Command change;
  change.kind = CommandKind::kSetLink;
  change.node = 1;
  change.change.latency = Duration::us(50);
  change.effective = kZero + Duration::us(1);
  pair->emulated.shard.commands().push(change);
  pair->run(kZero + Duration::us(10));
  const Time start = pair->emulated.now;
  post(pair->emulated, emulated(0), write_of(64, rkey_real), start);
  pair->run(kZero + Duration::ms(1));
  ASSERT_EQ(pair->real.endpoint.received.size(), 1u);
  EXPECT_EQ(pair->real.endpoint.received[0].at,
            start + kSlow.time_for(162) + kLatency + Duration::us(50));
}

}  // namespace
}  // namespace understudy
