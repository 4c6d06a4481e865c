// Faults carried out by a shard, in both directions: what crosses, when, and in which order.
#include <gtest/gtest.h>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr Time kZero = Time::zero();
const Rate kSlow = Rate::bits_per_second(100'000'000);
const Duration kLatency = Duration::us(300);  // many packets are on their way at once

Fault fault(FaultAction action, FaultDirection direction) {
  Fault f;
  f.action = action;
  f.direction = direction;
  f.packets = FaultPackets::kWrite;
  return f;
}

class EngineFaults : public testing::TestWithParam<FaultDirection> {
 protected:
  /// Ten WRITEs of 64 bytes go one way, number i with an immediate of i. `timeout` as in QpConfig.
  void run(const std::vector<Fault>& faults, uint8_t timeout = 11) {
    ShardConfig config = rig_config(kSlow, kLatency);
    config.faults = faults;
    pair = std::make_unique<RigPair>(config);
    const Rkey rkeys[] = {pair->real.add_region(0, 4096, memory),
                          pair->emulated.add_region(1, 4096, memory)};
    QpConfig near = pair->emulated.qp_config(0, 1, 0), far = pair->real.qp_config(0, 0, 1);
    near.timeout = far.timeout = timeout;
    pair->emulated.add_qp(near);
    pair->real.add_qp(far);
    Rig& from = to_real() ? pair->emulated : pair->real;
    for (uint32_t i = 0; i < 10; ++i) {
      WorkRequest r;
      r.op = WorkOp::kWriteImm;
      r.id = i;
      r.length = 64;
      r.rkey = rkeys[to_real() ? 0 : 1];
      r.payload.bytes = payload;
      ASSERT_TRUE(from.shard.post(kZero, *from.qps[0], r));
    }
    pair->run(kZero + Duration::ms(100));
  }
  bool to_real() const { return GetParam() == FaultDirection::kToReal; }
  Rig& receiver() { return to_real() ? pair->real : pair->emulated; }
  Rig& sender() { return to_real() ? pair->emulated : pair->real; }
  const FaultCounters& counted(size_t i = 0) {
    pair->emulated.shard.fit(snapshot);
    pair->emulated.shard.snapshot(snapshot, kZero);
    return snapshot.faults[i];
  }
  void expect_all_once() {
    EXPECT_EQ(receiver().endpoint.received.size(), 10u);
    EXPECT_EQ(sender().endpoint.completed.size(), 10u);
    EXPECT_EQ(sender().endpoint.failures, 0u);
  }

  uint8_t payload[64] = {1, 2, 3};
  uint8_t memory[4096] = {};
  std::unique_ptr<RigPair> pair;
  ShardSnapshot snapshot;
};

TEST_P(EngineFaults, WithoutAMatchNothingChanges) {
  run({});
  const auto to_real_before = pair->to_real.size(), to_emulated_before = pair->to_emulated.size();
  const Time last = receiver().endpoint.received.back().at;
  Fault f = fault(FaultAction::kDrop, GetParam());
  f.nth = 11;
  run({f});
  EXPECT_EQ(counted().matched, 10u);
  EXPECT_EQ(counted().acted, 0u);
  EXPECT_EQ(pair->to_real.size(), to_real_before);
  EXPECT_EQ(pair->to_emulated.size(), to_emulated_before);
  EXPECT_EQ(receiver().endpoint.received.back().at, last);
}

TEST_P(EngineFaults, ADroppedPacketIsSentAgain) {
  Fault f = fault(FaultAction::kDrop, GetParam());
  f.psn = 4;
  f.round = 1;
  run({f});
  expect_all_once();
  EXPECT_EQ(counted().acted, 1u);
  EXPECT_EQ(pair->emulated.drops(Drop::kFault), 1u);
  EXPECT_EQ(receiver().rc(RcEvent::kNakSent), 1u);
  EXPECT_EQ(sender().rc(RcEvent::kRetransmit), 6u);  // 4 to 9
  // The capture's point of view: what is dropped on its way in has come, what goes out has not
  // left.
  EXPECT_EQ(to_real() ? pair->to_real.size() : pair->to_emulated.size(), to_real() ? 15u : 16u);
}

TEST_P(EngineFaults, DroppedInTwoRoundsItTakesTwo) {
  Fault f = fault(FaultAction::kDrop, GetParam());
  f.psn = 4;
  f.most = 2;
  run({f});
  expect_all_once();
  EXPECT_EQ(counted().acted, 2u);
}

TEST_P(EngineFaults, CopiesComeBehindThePacketAndAreNotExecutedAgain) {
  Fault f = fault(FaultAction::kDuplicate, GetParam());
  f.nth = 3;
  f.count = 2;
  run({f});
  expect_all_once();
  EXPECT_EQ(receiver().rc(RcEvent::kDuplicateRequest), 2u);
  EXPECT_EQ(receiver().rc(RcEvent::kPsnGap), 0u);
}

TEST_P(EngineFaults, ACopyMayComeLate) {
  Fault f = fault(FaultAction::kDuplicate, GetParam());
  f.nth = 10;
  f.delay = Duration::ms(20);
  run({f});
  expect_all_once();
  EXPECT_EQ(receiver().rc(RcEvent::kDuplicateRequest), 1u);
  EXPECT_GE(sender().now, kZero + Duration::ms(20));
}

TEST_P(EngineFaults, AReorderedPacketIsOvertakenBySoMany) {
  Fault f = fault(FaultAction::kReorder, GetParam());
  f.psn = 2;
  f.round = 1;
  f.count = 3;
  f.delay = Duration::ms(50);
  run({f});
  expect_all_once();
  EXPECT_EQ(counted().acted, 1u);
  // 3, 4 and 5 meet a gap; then 2 comes in, and 6 meets the next one.
  EXPECT_GE(receiver().rc(RcEvent::kPsnGap), 3u);
  if (!to_real()) return;
  std::vector<uint32_t> psns;
  for (size_t i = 0; i < 7; ++i) psns.push_back(Parsed(pair->to_real[i].bytes).roce.psn.value());
  EXPECT_EQ(psns, (std::vector<uint32_t>{0, 1, 3, 4, 5, 2, 6}));
  EXPECT_EQ(pair->to_real[5].scheduled, pair->to_real[4].scheduled);
}

// From the real node all ten come at once and queue at the first link, behind the faults: a packet
// that was kept longer than the queue takes no time in it.
TEST_P(EngineFaults, AReorderedPacketWaitsNoLongerThanItMay) {
  run({}, 0);
  const Time before = receiver().endpoint.received[to_real() ? 9 : 0].at;
  Fault f = fault(FaultAction::kReorder, GetParam());
  f.nth = 10;  // nothing comes behind it
  f.delay = Duration::ms(1);
  run({f}, 0);
  expect_all_once();
  EXPECT_EQ(receiver().endpoint.received[9].at, before + f.delay);
}

TEST_P(EngineFaults, ADelayedPacketComesSoMuchLater) {
  run({}, 0);
  const Time before = receiver().endpoint.received[to_real() ? 9 : 0].at;
  Fault f = fault(FaultAction::kDelay, GetParam());
  f.nth = 10;
  f.delay = Duration::ms(1);
  run({f}, 0);
  expect_all_once();
  EXPECT_EQ(receiver().endpoint.received[9].at, before + f.delay);
}

TEST_P(EngineFaults, ABadIcrcLosesThePacket) {
  Fault f = fault(FaultAction::kCorrupt, GetParam());
  f.nth = 5;
  run({f});
  expect_all_once();
  EXPECT_EQ(receiver().drops(Drop::kBadIcrc), 1u);
  EXPECT_EQ(0, std::memcmp(memory, payload, sizeof payload));
}

TEST_P(EngineFaults, AGoodIcrcHidesTheDamage) {
  Fault f = fault(FaultAction::kCorrupt, GetParam());
  f.nth = 10;
  f.good_icrc = true;
  run({f});
  expect_all_once();
  EXPECT_EQ(receiver().drops(Drop::kBadIcrc), 0u);
  int bits = 0;
  for (size_t i = 0; i < sizeof payload; ++i)
    bits += std::popcount<unsigned>(memory[i] ^ payload[i]);
  EXPECT_EQ(bits, 1);
}

TEST_P(EngineFaults, CongestionIsMarked) {
  Fault f = fault(FaultAction::kMarkCe, GetParam());
  f.every = 2;
  run({f});
  expect_all_once();
  EXPECT_EQ(receiver().shard.counters().ce_marked, 5u);
  EXPECT_EQ(receiver().drops(Drop::kBadIcrc), 0u);
}

TEST_P(EngineFaults, AnswersMeetFaultsToo) {
  Fault f =
      fault(FaultAction::kDrop, to_real() ? FaultDirection::kFromReal : FaultDirection::kToReal);
  f.packets = FaultPackets::kAck;
  f.most = 3;
  run({f});
  expect_all_once();
  EXPECT_EQ(counted().acted, 3u);
}

TEST_P(EngineFaults, EqualRunsGiveEqualFrames) {
  Fault loss = fault(FaultAction::kDrop, GetParam()),
        twice = fault(FaultAction::kDuplicate, GetParam()),
        over = fault(FaultAction::kReorder, GetParam());
  loss.probability = twice.probability = over.probability = Fault::kAlways / 4;
  over.delay = Duration::ms(1);
  run({loss, twice, over});
  expect_all_once();
  const auto sent = std::move(pair->to_real);
  run({loss, twice, over});
  ASSERT_EQ(sent.size(), pair->to_real.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].bytes, pair->to_real[i].bytes);
    EXPECT_EQ(sent[i].scheduled, pair->to_real[i].scheduled);
  }
}

TEST_P(EngineFaults, AllPacketsComeBack) {
  Fault loss = fault(FaultAction::kDrop, FaultDirection::kBoth),
        twice = fault(FaultAction::kDuplicate, FaultDirection::kBoth),
        over = fault(FaultAction::kReorder, FaultDirection::kBoth),
        late = fault(FaultAction::kDelay, FaultDirection::kBoth);
  loss.packets = twice.packets = over.packets = late.packets = FaultPackets::kAny;
  loss.probability = twice.probability = over.probability = late.probability = Fault::kAlways / 5;
  late.delay = over.delay = Duration::us(500);
  run({loss, twice, over, late});
  expect_all_once();
  for (int i = 0; i < 4; ++i) EXPECT_GT(counted(static_cast<size_t>(i)).acted, 0u);
  // Nothing is held for ever.
  EXPECT_TRUE(pair->emulated.shard.next_wake().is_never());
}

Fault datagram_fault(FaultAction action, FaultDirection direction, uint64_t nth) {
  Fault f = fault(action, direction);
  f.packets = FaultPackets::kUd;
  f.node = 1;
  f.nth = nth;
  return f;
}

TEST(EngineFaultsOfDatagrams, TheyMeetFaultsInBothDirections) {
  ShardConfig config = rig_config(kSlow, Duration::us(3));
  config.faults = {datagram_fault(FaultAction::kDuplicate, FaultDirection::kToReal, 1),
                   datagram_fault(FaultAction::kCorrupt, FaultDirection::kToReal, 2),
                   datagram_fault(FaultAction::kMarkCe, FaultDirection::kToReal, 3),
                   datagram_fault(FaultAction::kDrop, FaultDirection::kFromReal, 2)};
  config.faults[1].good_icrc = true;
  Rig rig(config);
  Datagram datagram;
  datagram.addressing = rig.qp_config(0).addressing;
  datagram.bytes.assign(256, 0x42);
  Command c;
  c.kind = CommandKind::kSendDatagram;
  c.node = 1;
  c.datagram = &datagram;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rig.command(c), ReplyStatus::kDone);
  rig.advance(Duration::ms(1));
  ASSERT_EQ(rig.sink.sent.size(), 4u);
  EXPECT_EQ(rig.sink.sent[0].bytes, rig.sink.sent[1].bytes);
  for (size_t i = 0; i < 4; ++i) {
    const Parsed p(rig.sink.sent[i].bytes);
    ASSERT_EQ(p.kind, FrameKind::kRoce);
    EXPECT_TRUE(icrc_ok(p.view, p.roce));
    const auto* bytes = p.bytes.data() + p.roce.payload;
    EXPECT_EQ(std::count(bytes, bytes + 256, 0x42), i == 2 ? 255 : 256);
    EXPECT_EQ(p.view.tos & 3, i == 3 ? 3 : 0);
  }
  RoceAddressing from = datagram.addressing;
  std::swap(from.src, from.dst);
  RoceFields f;
  f.opcode = Opcode::kUdSendOnly;
  f.dest_qpn = kGsiQpn;
  f.qkey = kGsiQkey;
  for (int i = 0; i < 3; ++i) rig.receive(roce_frame(from, f, datagram.bytes));
  rig.advance(Duration::ms(1));
  int heard = 0;
  while (rig.shard.notices().take([&](const Notice&, std::span<const uint8_t>) { ++heard; })) {
  }
  EXPECT_EQ(heard, 2);
  EXPECT_EQ(rig.drops(Drop::kFault), 1u);
}

INSTANTIATE_TEST_SUITE_P(, EngineFaults,
                         testing::Values(FaultDirection::kToReal, FaultDirection::kFromReal),
                         [](const auto& info) {
                           return info.param == FaultDirection::kToReal ? "ToReal" : "FromReal";
                         });

}  // namespace
}  // namespace understudy
