// The two rings between control and a shard: effective times, answers, and objects that go away
// while packets are on their way.
#include <gtest/gtest.h>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr Time kZero = Time::zero();
const Rate kSlow = Rate::bits_per_second(100'000'000);

Command of(CommandKind kind) {
  Command c;
  c.kind = kind;
  return c;
}

Command remove_qp(Qpn qpn) {
  Command c = of(CommandKind::kRemoveQp);
  c.qpn = qpn;
  return c;
}

/// True if 16 bytes of this value follow one another in the frame.
bool contains(const SentFrame& frame, uint8_t value) {
  const std::vector<uint8_t> run(16, value);
  return std::search(frame.bytes.begin(), frame.bytes.end(), run.begin(), run.end()) !=
         frame.bytes.end();
}

/// The real node reads all of this memory, which is exposed as region 1; returns its rkey.
Rkey read_all(Rig& rig, std::vector<uint8_t>& memory) {
  Qp& qp = rig.add_qp(rig.qp_config(0));
  RoceAddressing from = qp.config().addressing;
  std::swap(from.src, from.dst);
  RoceFields read;
  read.opcode = Opcode::kReadRequest;
  read.dest_qpn = qp.config().qpn;
  read.rkey = rig.add_region(1, memory.size(), memory.data());
  read.dma_length = static_cast<uint32_t>(memory.size());
  rig.receive(roce_frame(from, read));
  return read.rkey;
}

TEST(Commands, RunAtTheirTimeInOrder) {
  Rig rig(rig_config(kSlow, Duration()));
  RigEndpoint other;
  // Pushed out of order; 40 and 40 keep their order.
  const int64_t at[] = {50, 40, 0, 40, 30};
  for (uint64_t i = 0; i < 5; ++i) {
    Command c = of(CommandKind::kWakeEndpoint);
    c.sequence = c.cookie = i;
    c.endpoint = &other;
    c.effective = kZero + Duration::us(at[i]);
    rig.shard.commands().push(c);
  }
  rig.advance(Duration::ms(1));
  const uint64_t order[] = {2, 4, 1, 3, 0};
  ASSERT_EQ(other.woken.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(other.woken[i].id, order[i]);
    EXPECT_EQ(other.woken[i].at, kZero + Duration::us(at[order[i]]));
    Reply reply;
    ASSERT_TRUE(rig.shard.replies().pop(reply));
    EXPECT_EQ(reply.sequence, order[i]);
    EXPECT_EQ(reply.status, ReplyStatus::kDone);
    EXPECT_EQ(reply.at, other.woken[i].at);
  }
}

/// A machine that is busy may let a shard's first turn, and any other, come late.
TEST(Commands, RunAtTheirTimeWhereATurnComesLate) {
  Rig rig(rig_config(kSlow, Duration()));
  RigEndpoint other;
  const auto push = [&](int64_t at_us) {
    Command c = of(CommandKind::kWakeEndpoint);
    c.endpoint = &other;
    c.effective = kZero + Duration::us(at_us);
    rig.shard.commands().push(c);
  };
  push(200);
  rig.poll(kZero + Duration::us(900));
  for (const int64_t at : {1500, 900, 300}) push(at);  // the last two are too late
  rig.poll(kZero + Duration::us(2000));
  const int64_t expected[] = {200, 1500, 2000, 2000};
  ASSERT_EQ(other.woken.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(other.woken[i].at, kZero + Duration::us(expected[i])) << i;
    Reply reply;
    ASSERT_TRUE(rig.shard.replies().pop(reply));
    EXPECT_EQ(reply.at, other.woken[i].at);
  }
}

/// Its memory may be used for something else once the answer has come.
TEST(Commands, AForgottenEndpointIsNotWokenAndOthersAre) {
  Rig rig(rig_config(kSlow, Duration()));
  RigEndpoint other, another;
  for (RigEndpoint* endpoint : {&other, &another}) {
    rig.shard.wake_at(kZero + Duration::us(10), *endpoint, 1);
    rig.shard.wake_at(kZero + Duration::us(900), *endpoint, 2);
  }
  rig.advance(Duration::us(20));
  const std::vector<const Endpoint*> gone{&other};
  Command c = of(CommandKind::kForget);
  c.endpoints = &gone;
  rig.shard.commands().push(c);
  rig.advance(Duration::us(20));
  Reply reply;
  ASSERT_TRUE(rig.shard.replies().pop(reply));
  EXPECT_EQ(reply.status, ReplyStatus::kDone);
  rig.advance(Duration::ms(2));
  EXPECT_EQ(other.woken.size(), 1u);
  ASSERT_EQ(another.woken.size(), 2u);
  EXPECT_EQ(another.woken[1].id, 2u);
}

TEST(Commands, ACommandThatIsLateDoesNotOvertakeOlderEvents) {
  // The loop was away from 0 to 10 us; a wake-up due at 4 us comes before a command found at 10.
  Rig rig(rig_config(kSlow, Duration()));
  rig.shard.wake_at(kZero + Duration::us(4), rig.endpoint, 1);
  Command c = of(CommandKind::kWakeEndpoint);
  c.endpoint = &rig.endpoint;
  c.cookie = 2;
  rig.shard.commands().push(c);
  rig.poll(kZero + Duration::us(10));
  ASSERT_EQ(rig.endpoint.woken.size(), 2u);
  EXPECT_EQ(rig.endpoint.woken[0].id, 1u);
  EXPECT_LE(rig.endpoint.woken[0].at, rig.endpoint.woken[1].at);
}

TEST(Commands, WrongOnesAreRefused) {
  Rig rig(rig_config(kSlow, Duration()));
  EXPECT_EQ(rig.command(remove_qp(rig.shard.qpn_of(3))), ReplyStatus::kNoSuchObject);
  EXPECT_EQ(rig.command(remove_qp(0xffffff)), ReplyStatus::kNoSuchObject);
  Command c = of(CommandKind::kSetLink);
  c.node = 77;
  EXPECT_EQ(rig.command(c), ReplyStatus::kNoSuchObject);
  c = of(CommandKind::kAddRegion);
  c.region_index = 16;
  EXPECT_EQ(rig.command(c), ReplyStatus::kTableFull);
  Qp& qp = rig.add_qp(rig.qp_config(0));
  c = of(CommandKind::kAddQp);
  c.qp = &qp;
  c.endpoint = &rig.endpoint;
  EXPECT_EQ(rig.command(c), ReplyStatus::kNoSuchObject) << "the number is in use";
  QpConfig beyond = rig.qp_config(64);
  Qp far(beyond, rig.shard.regions(), rig.shard.rc_counters(), rig.endpoint);
  c.qp = &far;
  EXPECT_EQ(rig.command(c), ReplyStatus::kTableFull);
}

TEST(Commands, PostingToAQueuePairThatIsNotThere) {
  Rig rig(rig_config(kSlow, Duration()));
  Qp& qp = rig.add_qp(rig.qp_config(0));
  EXPECT_EQ(rig.command(remove_qp(qp.config().qpn)), ReplyStatus::kDone);
  EXPECT_FALSE(rig.shard.post(rig.now, qp, WorkRequest{}));
}

/// What was posted and has not left is not read once its queue pair is gone.
TEST(Commands, RemovingAQueuePairLetsGoOfItsMemory) {
  Rig rig(rig_config(kSlow, Duration::us(100)));
  Qp& qp = rig.add_qp(rig.qp_config(0));
  std::vector<uint8_t> contents(10'000, 0xcd);
  WorkRequest r;
  r.op = WorkOp::kSend;
  r.length = 10'000;
  r.payload.bytes = contents.data();
  ASSERT_TRUE(rig.shard.post(rig.now, qp, r));
  rig.advance(Duration::us(150));  // some packets are in the latency
  const size_t sent = rig.sink.sent.size();
  EXPECT_EQ(rig.command(remove_qp(qp.config().qpn)), ReplyStatus::kDone);
  std::fill(contents.begin(), contents.end(), 0xee);
  rig.qps.clear();
  rig.advance(Duration::ms(10));
  EXPECT_GT(rig.sink.sent.size(), sent) << "what was on its way still arrives";
  EXPECT_LT(rig.sink.sent.size(), 10u);
  for (const SentFrame& frame : rig.sink.sent) EXPECT_FALSE(contains(frame, 0xee));
}

TEST(Commands, RemovingARegionLetsGoOfItsMemory) {
  Rig rig(rig_config(kSlow, Duration::us(100)));
  std::vector<uint8_t> memory(4096, 0xcd);
  read_all(rig, memory);
  rig.advance(Duration::us(550));  // one answer is out, others are in the latency
  Command c = of(CommandKind::kRemoveRegion);
  c.region_index = 1;
  EXPECT_EQ(rig.command(c), ReplyStatus::kDone);
  std::fill(memory.begin(), memory.end(), 0xee);
  rig.advance(Duration::ms(10));
  EXPECT_EQ(rig.sink.sent.size(), 4u);
  EXPECT_TRUE(contains(rig.sink.sent[0], 0xcd));
  for (const SentFrame& frame : rig.sink.sent) EXPECT_FALSE(contains(frame, 0xee));
  EXPECT_EQ(rig.command(c), ReplyStatus::kNoSuchObject);
}

/// Payload that is computed has no bytes either: it must not be taken for the region's.
TEST(Commands, RemovingARegionWithoutBytesLeavesOthersPayloadAlone) {
  Rig rig(rig_config(kSlow, Duration::us(100)));
  rig.add_region(1, 4096);
  Qp& qp = rig.add_qp(rig.qp_config(0));
  WorkRequest r;
  r.op = WorkOp::kSend;
  r.length = 512;
  r.payload.source = &kPlacePattern;
  ASSERT_TRUE(rig.shard.post(rig.now, qp, r));
  rig.advance(Duration::us(50));
  Command remove = of(CommandKind::kRemoveRegion);
  remove.region_index = 1;
  EXPECT_EQ(rig.command(remove), ReplyStatus::kDone);
  rig.advance(Duration::ms(10));
  ASSERT_EQ(rig.sink.sent.size(), 1u);
  const Parsed sent(rig.sink.sent[0].bytes);
  for (uint32_t i = 0; i < 512; ++i) {
    ASSERT_EQ(sent.bytes[sent.roce.payload + i], PlacePattern::at(i)) << i;
  }
}

/// The peer may have taken the rkey away meanwhile: the memory is control's all the same.
// rules: A4.24
TEST(Commands, RemovingAnInvalidatedRegionLetsGoOfItsMemory) {
  Rig rig(rig_config(kSlow, Duration::us(100)));
  std::vector<uint8_t> memory(4096, 0xcd);
  Command add = of(CommandKind::kAddRegion);
  add.region_index = 2;
  add.region = {1, 0, memory.size(), kAccessRemoteAny, memory.data(), false};
  EXPECT_EQ(rig.command(add), ReplyStatus::kDone);
  Qp& qp = rig.add_qp(rig.qp_config(0));
  RoceAddressing from = qp.config().addressing;
  std::swap(from.src, from.dst);
  RoceFields fields;
  fields.opcode = Opcode::kReadRequest;
  fields.rkey = fields.imm = rig.shard.regions().rkey(2);
  fields.dma_length = 1024;
  fields.dest_qpn = qp.config().qpn;
  rig.receive(roce_frame(from, fields));
  fields.opcode = Opcode::kSendOnlyInv;
  fields.psn = Psn(1);
  rig.receive(roce_frame(from, fields));
  rig.advance(Duration::us(250));  // the answer is in the latency, the SEND was executed
  ASSERT_EQ(rig.endpoint.received.size(), 1u);
  ASSERT_EQ(rig.rc(RcEvent::kInvalidated), 1u);
  Command remove = of(CommandKind::kRemoveRegion);
  remove.region_index = 2;
  EXPECT_EQ(rig.command(remove), ReplyStatus::kDone);
  std::fill(memory.begin(), memory.end(), 0xee);
  rig.advance(Duration::ms(10));
  EXPECT_EQ(rig.sink.sent.size(), 1u);
  EXPECT_FALSE(contains(rig.sink.sent[0], 0xee));
}

// rules: A4.22 A4.23
TEST(Commands, AQueuePairChangesItsState) {
  Rig rig(rig_config(kSlow, Duration()));
  QpConfig config = rig.qp_config(0);
  config.start = QpState::kRtr;
  Qp& qp = rig.add_qp(config);
  WorkRequest r;
  r.op = WorkOp::kSend;
  r.id = 5;
  EXPECT_FALSE(rig.shard.post(rig.now, qp, r));
  Command modify = of(CommandKind::kModifyQp);
  modify.qpn = config.qpn;
  modify.state = QpState::kRts;
  EXPECT_EQ(rig.command(modify), ReplyStatus::kDone);
  EXPECT_TRUE(rig.shard.post(rig.now, qp, r));
  modify.state = QpState::kInit;
  EXPECT_EQ(rig.command(modify), ReplyStatus::kNotAllowed);
  modify.state = QpState::kError;
  EXPECT_EQ(rig.command(modify), ReplyStatus::kDone);
  ASSERT_EQ(rig.endpoint.completed.size(), 1u);
  EXPECT_EQ(rig.endpoint.failures, 1u);
  modify.qpn = rig.shard.qpn_of(1);
  EXPECT_EQ(rig.command(modify), ReplyStatus::kNoSuchObject);
}

TEST(Commands, ANumberMayBeUsedAgainByAnotherNode) {
  Rig rig(rig_config(kSlow, Duration(), 3));
  Qp& first = rig.add_qp(rig.qp_config(0, 1));
  WorkRequest r;
  r.op = WorkOp::kSend;
  r.length = 100'000;
  ASSERT_TRUE(rig.shard.post(rig.now, first, r));
  rig.advance(Duration::us(150));  // waits for its turn on the link of node 1
  EXPECT_EQ(rig.command(remove_qp(first.config().qpn)), ReplyStatus::kDone);
  const size_t before = rig.sink.sent.size();
  Qp& second = rig.add_qp(rig.qp_config(0, 2));
  r.length = 64;
  ASSERT_TRUE(rig.shard.post(rig.now, second, r));
  rig.advance(Duration::ms(10));
  ASSERT_GT(rig.sink.sent.size(), before);
  EXPECT_EQ(Parsed(rig.sink.sent.back().bytes).view.src, node_ip(2));
  EXPECT_EQ(Parsed(rig.sink.sent.back().bytes).view.src_mac, node_mac(2));
  ASSERT_EQ(rig.endpoint.transmitted.size(), 1u);
  ShardSnapshot snapshot;
  snapshot.up.resize(3);
  snapshot.down.resize(3);
  rig.shard.snapshot(snapshot, rig.now);
  EXPECT_EQ(snapshot.up[2].packets, 1u) << "it left by its own node's link";
}

/// What the peer sent to the one before does not reach the number's next owner.
TEST(Commands, ANumbersNextOwnerHearsNothingOfWhatWasOnItsWay) {
  Rig rig(rig_config(kSlow, Duration::us(100), 3));
  Qp& first = rig.add_qp(rig.qp_config(0, 1));
  RoceAddressing from = first.config().addressing;
  std::swap(from.src, from.dst);
  RoceFields send;
  send.opcode = Opcode::kSendOnly;
  send.dest_qpn = first.config().qpn;
  rig.receive(roce_frame(from, send, std::vector<uint8_t>(64)));
  rig.advance(Duration::us(150));
  EXPECT_EQ(rig.command(remove_qp(first.config().qpn)), ReplyStatus::kDone);
  rig.add_qp(rig.qp_config(0, 2));
  rig.advance(Duration::ms(1));
  EXPECT_TRUE(rig.endpoint.received.empty());
  EXPECT_EQ(rig.drops(Drop::kUnknownQpn), 1u);
}

/// A region's place is taken again and again, its rkey's last byte comes back: what was read from
/// the first one is not read from where its bytes were.
TEST(Commands, AnOldRegionIsNotTakenForALaterOneOfTheSameKey) {
  Rig rig(rig_config(kSlow, Duration::us(100)));
  std::vector<uint8_t> memory(1024, 0xcd);
  const Rkey rkey = read_all(rig, memory);
  rig.advance(Duration::us(250));  // the answer is in the latency
  Command remove = of(CommandKind::kRemoveRegion);
  remove.region_index = 1;
  std::vector<uint8_t> other(1024, 0xab);
  Rkey last = 0;
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(rig.command(remove), ReplyStatus::kDone);
    last = rig.add_region(1, other.size(), other.data());
  }
  EXPECT_EQ(last, rkey);
  std::fill(memory.begin(), memory.end(), 0xee);
  rig.advance(Duration::ms(10));
  ASSERT_EQ(rig.sink.sent.size(), 1u);
  for (const uint8_t value : {uint8_t{0xcd}, uint8_t{0xab}, uint8_t{0xee}}) {
    EXPECT_FALSE(contains(rig.sink.sent[0], value)) << int{value};
  }
}

TEST(Commands, WakeUpsComeInOrderOfTime) {
  Rig rig(rig_config(kSlow, Duration()));
  for (uint64_t i = 0; i < 100; ++i) {
    rig.shard.wake_at(kZero + Duration::us(static_cast<int64_t>(i * 37 % 50)), rig.endpoint, i);
  }
  rig.advance(Duration::ms(1));
  const auto& woken = rig.endpoint.woken;
  ASSERT_EQ(woken.size(), 100u);
  for (size_t i = 1; i < 100; ++i) {
    EXPECT_LE(woken[i - 1].at, woken[i].at);
    EXPECT_TRUE(woken[i - 1].at < woken[i].at || woken[i - 1].id < woken[i].id);
  }
}

TEST(Commands, SnapshotCountsLinksByNode) {
  Rig rig(rig_config(kSlow, Duration()));
  Qp& qp = rig.add_qp(rig.qp_config(0));
  WorkRequest r;
  r.op = WorkOp::kSend;
  r.length = 3000;
  ASSERT_TRUE(rig.shard.post(rig.now, qp, r));
  rig.advance(Duration::ms(1));
  ShardSnapshot snapshot;
  snapshot.up.resize(2);
  snapshot.down.resize(2);
  Command c = of(CommandKind::kSnapshot);
  c.snapshot = &snapshot;
  EXPECT_EQ(rig.command(c), ReplyStatus::kDone);
  EXPECT_EQ(snapshot.at, rig.now);
  EXPECT_EQ(snapshot.counters.tx_roce, 3u);
  EXPECT_EQ(snapshot.up[1].packets, 3u);
  EXPECT_EQ(snapshot.down[0].packets, 3u);
  EXPECT_EQ(snapshot.up[0].packets, 0u);
  EXPECT_EQ(snapshot.up[1].wire_bytes, 3000u + 3 * 82);
}

}  // namespace
}  // namespace understudy
