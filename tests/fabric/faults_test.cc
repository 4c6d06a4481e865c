// Which packets a fault chooses, and that equal input gives equal verdicts.
#include "dataplane/fabric/faults.h"

#include <gtest/gtest.h>

#include "dataplane/fabric/held_packets.h"

namespace understudy {
namespace {

constexpr NodeId kNodes[] = {7, 3, 9};
constexpr uint32_t kFirstSent = 100, kFirstExpected = Psn::kMask - 1;

FaultInjector injector(const std::vector<Fault>& faults, uint64_t seed = 1) {
  FaultInjector i(faults, seed, {std::begin(kNodes), std::end(kNodes)}, 8);
  i.on_new_qp(0, 1, Psn(kFirstSent), Psn(kFirstExpected));
  return i;
}

Fault drop_of() { return {}; }

FaultFacts facts(bool to_real, Opcode opcode, uint32_t psn, uint32_t slot = 0) {
  return {to_real, slot, static_cast<uint8_t>(opcode), 0, Psn(psn), 1};
}

/// The numbers of those of `count` consecutive WRITEs to the real node that are dropped.
std::vector<uint32_t> dropped(FaultInjector& i, uint32_t count) {
  std::vector<uint32_t> numbers;
  for (uint32_t n = 0; n < count; ++n) {
    const FaultFacts f = facts(true, Opcode::kWriteOnly, kFirstSent + n);
    if (i.judge(f, Time::zero() + Duration::us(n)).drop.any()) numbers.push_back(n);
  }
  return numbers;
}

using Numbers = std::vector<uint32_t>;

TEST(Faults, NothingChosenWithoutFaults) { EXPECT_FALSE(injector({}).active()); }

TEST(Faults, CountingChooses) {
  Fault f = drop_of();
  f.nth = 3;
  auto third = injector({f});
  EXPECT_EQ(dropped(third, 10), (Numbers{2}));
  EXPECT_EQ(third.counters()[0].matched, 10u);
  EXPECT_EQ(third.counters()[0].acted, 1u);
  f.nth = 0;
  f.every = 4;
  f.most = 2;
  auto fourths = injector({f});
  EXPECT_EQ(dropped(fourths, 20), (Numbers{3, 7}));
}

TEST(Faults, TimeWindowEndsBeforeItsEnd) {
  Fault f = drop_of();
  f.from = Time::zero() + Duration::us(2);
  f.to = Time::zero() + Duration::us(5);
  auto i = injector({f});
  EXPECT_EQ(dropped(i, 10), (Numbers{2, 3, 4}));
}

TEST(Faults, ProbabilityFollowsTheSeedAlone) {
  Fault f = drop_of();
  f.probability = Fault::kAlways / 10;
  auto a = injector({f}, 5), b = injector({f}, 5), c = injector({f}, 6);
  const Numbers first = dropped(a, 20000);
  EXPECT_EQ(first, dropped(b, 20000));
  EXPECT_NE(first, dropped(c, 20000));
  EXPECT_NEAR(static_cast<double>(first.size()), 2000, 200);
  auto both = injector({f, f}, 5);  // two faults draw apart
  EXPECT_NEAR(static_cast<double>(dropped(both, 20000).size()), 3800, 250);
}

TEST(Faults, DirectionAndKind) {
  struct Case {
    FaultPackets packets;
    std::vector<Opcode> yes, no;
  };
  const Case cases[] = {
      {FaultPackets::kRequest, {Opcode::kSendOnly, Opcode::kReadRequest}, {Opcode::kAcknowledge}},
      {FaultPackets::kResponse,
       {Opcode::kAcknowledge, Opcode::kReadResponseMiddle, Opcode::kAtomicAcknowledge},
       {Opcode::kWriteOnly, Opcode::kCnp}},
      {FaultPackets::kSend, {Opcode::kSendLastInv}, {Opcode::kWriteLast}},
      {FaultPackets::kWrite, {Opcode::kWriteLastImm}, {Opcode::kSendLast}},
      {FaultPackets::kRead, {Opcode::kReadRequest}, {Opcode::kReadResponseOnly}},
      {FaultPackets::kAtomic, {Opcode::kFetchAdd}, {Opcode::kAtomicAcknowledge}},
      {FaultPackets::kReadResponse, {Opcode::kReadResponseOnly}, {Opcode::kReadRequest}},
      {FaultPackets::kAtomicResponse, {Opcode::kAtomicAcknowledge}, {Opcode::kAcknowledge}},
      {FaultPackets::kAck, {Opcode::kAcknowledge}, {Opcode::kAtomicAcknowledge}},
      {FaultPackets::kCnp, {Opcode::kCnp}, {Opcode::kAcknowledge}},
  };
  for (const Case& c : cases) {
    Fault f = drop_of();
    f.packets = c.packets;
    f.direction = FaultDirection::kFromReal;
    auto i = injector({f});
    for (const Opcode o : c.yes) {
      EXPECT_TRUE(i.judge(facts(false, o, 5), {}).drop.any()) << opcode_info(o).name;
      EXPECT_FALSE(i.judge(facts(true, o, 5), {}).drop.any()) << opcode_info(o).name;
    }
    for (const Opcode o : c.no) {
      EXPECT_FALSE(i.judge(facts(false, o, 5), {}).drop.any()) << opcode_info(o).name;
    }
  }
}

TEST(Faults, SyndromesTellAcknowledgementsApart) {
  const std::pair<FaultPackets, uint8_t> kinds[] = {{FaultPackets::kAck, kSyndromeAck},
                                                    {FaultPackets::kNak, kSyndromeNak},
                                                    {FaultPackets::kRnr, kSyndromeRnrNak}};
  for (const auto& [wanted, of] : kinds) {
    Fault f = drop_of();
    f.packets = wanted;
    auto i = injector({f});
    for (const auto& [other, syndrome] : kinds) {
      FaultFacts ack = facts(true, Opcode::kAcknowledge, 1);
      ack.syndrome = static_cast<uint8_t>(syndrome | 5);
      EXPECT_EQ(i.judge(ack, {}).drop.any(), other == wanted);
    }
  }
}

TEST(Faults, NodeAndItsQueuePair) {
  Fault f = drop_of();
  f.node = 3;
  f.queue_pair = 2;
  auto i = injector({f});
  i.on_new_qp(1, 0, Psn(0), Psn(0));
  i.on_new_qp(2, 1, Psn(0), Psn(0));  // the second of node 3
  i.on_new_qp(3, 0, Psn(0), Psn(0));  // the second of node 7
  for (uint32_t slot = 0; slot < 4; ++slot) {
    EXPECT_EQ(i.judge(facts(true, Opcode::kSendOnly, 0, slot), {}).drop.any(), slot == 2) << slot;
  }
  i.on_new_qp(2, 1, Psn(0), Psn(0));  // the slot's next owner is the node's third
  EXPECT_FALSE(i.judge(facts(true, Opcode::kSendOnly, 0, 2), {}).drop.any());
}

// Four streams share two sequences of PSNs; each is counted from its own first one.
TEST(Faults, PsnCountsFromTheConnectionsFirst) {
  Fault f = drop_of();
  f.psn = 4;
  auto i = injector({f});
  const auto hit = [&](bool to_real, Opcode o, uint32_t psn) {
    return i.judge(facts(to_real, o, psn), {}).drop.any();
  };
  const uint32_t expected = Psn(kFirstExpected).advance(4).value();  // wrapped
  EXPECT_TRUE(hit(true, Opcode::kWriteOnly, kFirstSent + 4));
  EXPECT_TRUE(hit(false, Opcode::kAcknowledge, kFirstSent + 4));
  EXPECT_TRUE(hit(false, Opcode::kWriteOnly, expected));
  EXPECT_TRUE(hit(true, Opcode::kReadResponseOnly, expected));
  EXPECT_FALSE(hit(true, Opcode::kWriteOnly, expected));
  EXPECT_FALSE(hit(false, Opcode::kWriteOnly, kFirstSent + 4));
}

TEST(Faults, RoundsCountHowOftenASequenceWentBack) {
  Fault f = drop_of();
  f.round = 2;
  auto i = injector({f});
  Numbers hits;
  const uint32_t order[] = {0, 1, 2, 1, 2, 3, 2, 2, 3};
  //                 round  1  1  1  2  2  1  2  3  3
  for (uint32_t n = 0; n < std::size(order); ++n) {
    const FaultFacts packet = facts(true, Opcode::kWriteOnly, kFirstSent + order[n]);
    if (i.judge(packet, {}).drop.any()) hits.push_back(n);
  }
  EXPECT_EQ(hits, (Numbers{3, 4, 6}));
}

TEST(Faults, ARepeatedReadIsNoNewOneThoughItBeginsLater) {
  Fault f = drop_of();
  f.round = 2;
  auto i = injector({f});
  FaultFacts read = facts(true, Opcode::kReadRequest, kFirstSent);
  read.psns = 10;
  EXPECT_FALSE(i.judge(read, {}).drop.any());
  read.psn = read.psn.advance(10);  // the next one
  read.psns = 4;
  EXPECT_FALSE(i.judge(read, {}).drop.any());
  read.psn = Psn(kFirstSent).advance(5);  // the first one's tail again
  read.psns = 5;
  EXPECT_TRUE(i.judge(read, {}).drop.any());
}

TEST(Faults, ADroppedPacketMeetsNoLaterFault) {
  Fault drop = drop_of(), ce = drop_of();
  drop.nth = 1;
  ce.action = FaultAction::kMarkCe;
  auto i = injector({drop, ce});
  EXPECT_FALSE(i.judge(facts(true, Opcode::kSendOnly, 1), {}).mark_ce);
  EXPECT_TRUE(i.judge(facts(true, Opcode::kSendOnly, 2), {}).mark_ce);
  EXPECT_EQ(i.counters()[1].matched, 1u);
}

TEST(Faults, ActionsAddUp) {
  Fault late = drop_of(), later = drop_of(), twice = drop_of(), bent = drop_of(), over = drop_of();
  late.action = later.action = FaultAction::kDelay;
  late.delay = Duration::us(1);
  later.delay = Duration::us(2);
  twice.action = FaultAction::kDuplicate;
  bent.action = FaultAction::kCorrupt;
  over.action = FaultAction::kReorder;
  auto i = injector({late, later, twice, bent, over});
  const FaultVerdict v = i.judge(facts(true, Opcode::kSendOnly, 1), {});
  EXPECT_EQ(v.delay, Duration::us(3));
  EXPECT_EQ(v.duplicate.fault, 2u);
  EXPECT_EQ(v.corrupt.fault, 3u);
  EXPECT_EQ(v.reorder.fault, 4u);
  EXPECT_FALSE(v.drop.any());
  i.skip(v.duplicate);
  EXPECT_EQ(i.counters()[2].acted, 0u);
  EXPECT_EQ(i.counters()[2].skipped, 1u);
}

TEST(HeldPackets, GoOnAfterEnoughOfTheirStreamOrInTime) {
  HeldPackets held;
  const PacketStream one{.qpn = 1}, other{.qpn = 2};
  std::vector<std::pair<uint32_t, Time>> gone;
  const auto release = [&](uint32_t packet, Time at) { gone.emplace_back(packet, at); };
  const Time end = Time::zero() + Duration::us(9);
  EXPECT_EQ(held.hold(50, one, 2, end), 0u);
  EXPECT_EQ(held.hold(60, other, 1, end), 1u);
  held.pass(one, Time::zero() + Duration::us(1), release);
  EXPECT_TRUE(gone.empty());
  held.pass(one, Time::zero() + Duration::us(2), release);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0], std::pair(50u, Time::zero() + Duration::us(2)));
  uint32_t packet = 0;
  EXPECT_FALSE(held.expire(0, end, packet));  // gone by now
  EXPECT_FALSE(held.expire(1, end - Duration::ps(1), packet));
  EXPECT_TRUE(held.expire(1, end, packet));
  EXPECT_EQ(packet, 60u);
  EXPECT_TRUE(held.empty());
}

TEST(HeldPackets, HoldNoMoreThanTheyHaveRoomFor) {
  HeldPackets held;
  for (uint32_t i = 0; i < HeldPackets::kMost; ++i) EXPECT_EQ(held.hold(i, {.qpn = i}, 1, {}), i);
  EXPECT_EQ(held.hold(1, {.qpn = 1}, 1, {}), HeldPackets::kNoEntry);
}

}  // namespace
}  // namespace understudy
