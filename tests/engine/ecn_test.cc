// Marked packets and the CNPs that answer them: to whom, of which form, how often (rule A6).
#include <gtest/gtest.h>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr uint8_t kEct0 = 2, kCe = 3;
const Rate kSlow = Rate::bits_per_second(100'000'000);  // 80 ns a byte
const Duration kLatency = Duration::us(3);
constexpr uint64_t kCnpWireBytes = 14 + 20 + 8 + 12 + 16 + 4 + 24;

class Ecn : public testing::Test {
 protected:
  void build(const ShardConfig& config, uint32_t queue_pairs = 1) {
    rig = std::make_unique<Rig>(config);
    rkey = rig->add_region(1, 1 << 20);
    for (uint32_t i = 0; i < queue_pairs; ++i) rig->add_qp(qp_config(i));
  }
  void build() { build(rig_config(Rate(), Duration())); }
  QpConfig qp_config(uint32_t slot) {
    QpConfig c = rig->qp_config(slot);
    c.remote_qpn = 0x7000 + slot;  // so that nobody takes one number for the other
    return c;
  }

  /// A WRITE of the real node to queue pair `slot` with these ECN bits; without AckReq, so that
  /// CNPs are the only answers.
  std::vector<uint8_t> frame(uint8_t tos, uint32_t slot = 0, bool ack = false) {
    const Qp& qp = *rig->qps[slot];
    RoceAddressing a = qp.config().addressing;
    std::swap(a.src_mac, a.dst_mac);
    std::swap(a.src, a.dst);
    a.traffic_class = tos;
    RoceFields f;
    f.opcode = Opcode::kWriteOnly;
    f.dest_qpn = qp.config().qpn;
    f.psn = psns[slot];
    psns[slot] = psns[slot].next();
    f.rkey = rkey;
    f.dma_length = 64;
    f.ack_request = ack;
    return roce_frame(a, f, std::vector<uint8_t>(64));
  }
  void receive(uint8_t tos, uint32_t slot = 0) { rig->receive(frame(tos, slot)); }

  /// What has been sent since the last call, with the times, all of it CNPs.
  std::vector<std::pair<Time, Qpn>> cnps() {
    std::vector<std::pair<Time, Qpn>> out;
    for (const SentFrame& sent : rig->sink.sent) {
      const Parsed p(sent.bytes);
      EXPECT_EQ(p.kind, FrameKind::kRoce);
      if (p.roce.info().kind == OpKind::kCnp) out.emplace_back(sent.scheduled, p.roce.dest_qpn);
    }
    rig->sink.sent.clear();
    return out;
  }
  const ShardCounters& counters() const { return rig->shard.counters(); }

  std::unique_ptr<Rig> rig;
  Rkey rkey = 0;
  std::array<Psn, 64> psns;
};

// rules: A6.3
TEST_F(Ecn, ACnpHasTheRightForm) {
  for (const bool v6 : {false, true}) {
    for (const bool tagged : {false, true}) {
      SCOPED_TRACE(testing::Message() << (v6 ? "v6" : "v4") << (tagged ? " tagged" : ""));
      psns = {};
      ShardConfig config = rig_config(Rate(), Duration());
      if (tagged) tag_nodes(config, 3 << 13 | 100);
      build(config, 0);
      QpConfig qp = rig->qp_config(0, 1, kRealNode, v6);
      qp.remote_qpn = 0x123456;
      qp.addressing.udp_src = 0xcafe;
      qp.addressing.traffic_class = 26 << 2 | kEct0;
      rig->add_qp(qp);
      receive(26 << 2 | kCe);
      rig->advance(Duration::us(1));
      ASSERT_EQ(rig->sink.sent.size(), 1u);
      const Parsed cnp(rig->sink.sent[0].bytes);
      ASSERT_EQ(cnp.kind, FrameKind::kRoce);
      EXPECT_EQ(cnp.roce.opcode, 0x81);
      EXPECT_TRUE(cnp.roce.becn);
      EXPECT_FALSE(cnp.roce.ack_request);
      EXPECT_FALSE(cnp.roce.solicited);
      EXPECT_EQ(cnp.roce.psn, Psn(0));
      EXPECT_EQ(cnp.roce.pkey, 0xffff);
      EXPECT_EQ(cnp.roce.dest_qpn, 0x123456u);
      ASSERT_EQ(cnp.roce.payload_bytes, 16u);
      for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(cnp.view.frame[cnp.roce.payload + i], 0);
      EXPECT_TRUE(icrc_ok(cnp.view, cnp.roce));
      // From the marked packet's receiver to its sender, in a class of its own.
      EXPECT_EQ(cnp.view.src, node_ip(1, v6));
      EXPECT_EQ(cnp.view.dst, node_ip(0, v6));
      EXPECT_EQ(cnp.view.src_mac, node_mac(1));
      EXPECT_EQ(cnp.view.dst_mac, node_mac(0));
      EXPECT_EQ(cnp.view.udp_src, 0xcafe);
      EXPECT_EQ(cnp.view.tos, 48 << 2);
      EXPECT_EQ(cnp.view.vlans, tagged ? 1u : 0u);
      if (tagged) {
        EXPECT_EQ(cnp.view.vlan[0].tci, 6 << 13 | 100);
      }
    }
  }
}

TEST_F(Ecn, DscpAndPriorityAreTheConfigurations) {
  ShardConfig config = rig_config(Rate(), Duration());
  config.cnp.traffic_class = 10 << 2;
  config.cnp.pcp = 1;
  tag_nodes(config, 100);
  build(config);
  receive(kCe);
  rig->advance(Duration::us(1));
  const Parsed cnp(rig->sink.sent.at(0).bytes);
  EXPECT_EQ(cnp.view.tos, 10 << 2);
  EXPECT_EQ(cnp.view.vlan[0].tci, 1 << 13 | 100);
}

// rules: A6.2
TEST_F(Ecn, OnlyMarkedPacketsAreAnswered) {
  build();
  for (const int tos : {0, 1, 2, 26 << 2, 26 << 2 | 1, 63 << 2 | 2}) {
    receive(static_cast<uint8_t>(tos));
    rig->advance(Duration::us(10));
  }
  EXPECT_TRUE(cnps().empty());
  EXPECT_EQ(counters().ce_delivered, 0u);
  receive(kCe);
  rig->advance(Duration::us(10));
  EXPECT_EQ(cnps().size(), 1u);
  EXPECT_EQ(counters().ce_delivered, 1u);
  EXPECT_EQ(counters().cnp_sent, 1u);
  EXPECT_EQ(counters().cnp_suppressed, 0u);
}

TEST_F(Ecn, EveryKindOfPacketIsAnsweredButACnp) {
  build();
  RoceFields f;
  f.dest_qpn = rig->qps[0]->config().qpn;
  RoceAddressing a = rig->qps[0]->config().addressing;
  std::swap(a.src_mac, a.dst_mac);
  std::swap(a.src, a.dst);
  a.traffic_class = kCe;
  uint64_t answered = 0;
  for (const Opcode op : {Opcode::kAcknowledge, Opcode::kReadResponseMiddle, Opcode::kReadRequest,
                          Opcode::kSendOnly, Opcode::kCnp}) {
    f.opcode = op;
    rig->receive(roce_frame(a, f, std::vector<uint8_t>(op == Opcode::kCnp ? kCnpPadBytes : 0)));
    rig->advance(Duration::us(10));
    answered += op == Opcode::kCnp ? 0 : 1;
    EXPECT_EQ(counters().cnp_sent, answered) << opcode_info(op).name;
  }
  EXPECT_EQ(counters().cnp_received, 1u);
}

TEST_F(Ecn, WithoutNotificationMarksAreCountedOnly) {
  ShardConfig config = rig_config(Rate(), Duration());
  config.cnp.on = false;
  build(config);
  receive(kCe);
  rig->advance(Duration::us(10));
  EXPECT_TRUE(cnps().empty());
  EXPECT_EQ(counters().ce_delivered, 1u);
  EXPECT_EQ(counters().cnp_suppressed, 0u);
}

// rules: A6.4
TEST_F(Ecn, CnpsKeepTheirInterval) {
  for (const Duration interval : {Duration::us(4), Duration::ns(4500), Duration::us(50)}) {
    SCOPED_TRACE(interval.microseconds());
    psns = {};
    ShardConfig config = rig_config(Rate(), Duration());
    config.cnp.interval = interval;
    build(config);
    // A marked packet every 500 ns: the first after each interval is answered, at once.
    std::vector<Time> expected;
    Time next;
    for (Time t; t < Time::zero() + Duration::us(300); t += Duration::ns(500)) {
      rig->advance(t);
      receive(kCe);
      rig->poll(t);
      if (t < next) continue;
      expected.push_back(t);
      next = t + interval;
    }
    std::vector<Time> sent;
    for (const auto& [at, qpn] : cnps()) sent.push_back(at);
    EXPECT_EQ(sent, expected);
    EXPECT_EQ(counters().cnp_sent, expected.size());
    EXPECT_EQ(counters().cnp_suppressed, 600 - expected.size());
  }
}

TEST_F(Ecn, EachQueuePairHasAnIntervalOfItsOwn) {
  build(rig_config(Rate(), Duration()), 3);
  for (uint32_t round = 0; round < 2; ++round) {
    for (uint32_t slot = 0; slot < 3; ++slot) receive(kCe, slot);
  }
  rig->advance(Duration::us(1));
  std::vector<Qpn> told;
  for (const auto& [at, qpn] : cnps()) told.push_back(qpn);
  EXPECT_EQ(told, (std::vector<Qpn>{0x7000, 0x7001, 0x7002}));
  EXPECT_EQ(counters().cnp_suppressed, 3u);
}

TEST_F(Ecn, ANewQueuePairInTheSamePlaceStartsAnew) {
  build();
  receive(kCe);
  rig->advance(Duration::us(1));
  Command remove;
  remove.kind = CommandKind::kRemoveQp;
  remove.qpn = rig->qps[0]->config().qpn;
  rig->command(remove);
  rig->qps.clear();
  rig->add_qp(qp_config(0));
  psns = {};
  receive(kCe);
  rig->advance(Duration::us(1));
  EXPECT_EQ(cnps().size(), 2u);
}

TEST_F(Ecn, AQueuePairThatHasFailedTellsNobody) {
  build();
  ASSERT_TRUE(rig->qps[0]->modify(rig->now, QpState::kError));
  receive(kCe);
  rig->advance(Duration::us(1));
  EXPECT_TRUE(cnps().empty());
  EXPECT_EQ(counters().ce_delivered, 1u);
}

/// The link of the emulated node is busy with a stream; CNPs of two queue pairs wait for it.
class EcnQueue : public Ecn {
 protected:
  void stream(bool separate) {
    ShardConfig config = rig_config(kSlow, kLatency);
    config.separate_control = separate;
    build(config, 3);
    WorkRequest write;
    write.length = 1 << 20;
    ASSERT_TRUE(rig->shard.post(rig->now, *rig->qps[2], write));
    rig->advance(Duration::us(1));  // in the middle of the first packet
    first_end = Time::zero() + kSlow.time_for(82 + 16 + 1024);
  }
  /// When marked packets received now reach their queue pairs.
  Time heard(unsigned packets) const {
    const Duration each = kSlow.time_for(82 + 16 + 64);
    return rig->now + each * static_cast<int64_t>(packets) + kLatency * 2;
  }
  Time first_end;
};

TEST_F(EcnQueue, ACnpGoesBeforeTheDataThatWait) {
  stream(false);
  receive(kCe, 0);
  const Time at = heard(1);
  ASSERT_LT(at, first_end);
  rig->advance(Duration::ms(1));
  const auto sent = cnps();
  ASSERT_EQ(sent.size(), 1u);
  // Behind the packet that was under way, and no other.
  EXPECT_EQ(sent[0].first, first_end + kSlow.time_for(kCnpWireBytes) + kLatency * 2);
}

TEST_F(EcnQueue, InAClassOfItsOwnItWaitsForNothing) {
  stream(true);
  receive(kCe, 0);
  const Time at = heard(1);
  rig->advance(Duration::ms(1));
  const auto sent = cnps();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].first, at + kSlow.time_for(kCnpWireBytes) + kLatency * 2);
}

TEST_F(EcnQueue, TheIntervalCountsFromWhenItLeft) {
  stream(false);
  receive(kCe, 0);
  receive(kCe, 0);
  rig->advance(first_end);  // it leaves now
  ASSERT_EQ(counters().cnp_sent, 1u);
  EXPECT_EQ(counters().cnp_suppressed, 1u);
}

// rules: A6.4
TEST_F(EcnQueue, CnpsAreAsFarApartWhenTheyLeaveWhateverTheyWaitFor) {
  ShardConfig config = rig_config(kSlow, kLatency);
  config.cnp.interval = Duration::us(200);  // a packet of the stream takes 90 us
  build(config, 3);
  WorkRequest write;
  write.length = 1 << 20;
  ASSERT_TRUE(rig->shard.post(rig->now, *rig->qps[2], write));
  while (rig->now < Time::zero() + Duration::ms(20)) {
    receive(kCe);
    rig->advance(rig->now + Duration::us(17));
  }
  const auto sent = cnps();  // the path behind the node's link has its rate: they keep their gaps
  ASSERT_GT(sent.size(), 60u);
  for (size_t i = 1; i < sent.size(); ++i) {
    EXPECT_GE(sent[i].first - sent[i - 1].first, Duration::us(200));
    EXPECT_LE(sent[i].first - sent[i - 1].first, Duration::us(200 + 17 + 2 * 90));
  }
}

TEST_F(EcnQueue, ARemovedQueuePairTakesItsCnpWithIt) {
  for (const uint32_t removed : {0u, 1u}) {
    psns = {};
    stream(false);
    receive(kCe, 0);
    receive(kCe, 1);
    rig->advance(heard(2));
    ASSERT_EQ(counters().cnp_sent, 0u);
    Command remove;
    remove.kind = CommandKind::kRemoveQp;
    remove.qpn = rig->qps[removed]->config().qpn;
    EXPECT_EQ(rig->command(remove), ReplyStatus::kDone);
    rig->advance(Duration::ms(1));
    const auto sent = cnps();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].second, 0x7001u - removed);
  }
}

TEST_F(Ecn, ACnpWaitsForAPacketWhenNoneIsLeft) {
  ShardConfig config = rig_config(Rate(), Duration());
  config.packets = 64;
  build(config, 2);
  rig->sink.room = 0;  // the device takes nothing: what is sent stays
  WorkRequest write;
  write.length = 1 << 20;
  ASSERT_TRUE(rig->shard.post(rig->now, *rig->qps[1], write));
  rig->poll(rig->now + Duration::us(1));
  receive(kCe, 0);
  rig->poll(rig->now + Duration::us(1));
  EXPECT_EQ(counters().ce_delivered, 1u);
  EXPECT_EQ(counters().cnp_sent, 0u);
  rig->sink.room = SIZE_MAX;
  rig->advance(Duration::us(1));
  EXPECT_EQ(counters().cnp_sent, 1u);
  EXPECT_EQ(cnps().size(), 1u);
}

TEST_F(Ecn, CnpsOfTheRealNodeCrossTheFabric) {
  build(rig_config(kSlow, kLatency));
  RoceAddressing a = rig->qps[0]->config().addressing;
  std::swap(a.src_mac, a.dst_mac);
  std::swap(a.src, a.dst);
  rig->receive(roce_frame(a, cnp_fields(rig->qps[0]->config().qpn, 0xffff, true),
                          std::vector<uint8_t>(kCnpPadBytes)));
  const Time arrival = rig->now + kSlow.time_for(kCnpWireBytes) + kLatency * 2;
  rig->advance(arrival + Duration::ps(-1));
  EXPECT_EQ(counters().cnp_received, 0u);
  rig->advance(arrival);
  EXPECT_EQ(counters().cnp_received, 1u);
  EXPECT_TRUE(rig->sink.sent.empty());
}

/// Every packet of a queue pair has its traffic class: data, acknowledgements and READ responses.
TEST(TrafficClass, AllPacketsOfAQueuePairHaveIt) {
  RigPair pair(rig_config(Rate(), Duration()));
  const Rkey rkey = pair.real.add_region(0, 1 << 20);
  const Rkey own = pair.emulated.add_region(1, 1 << 20);
  QpConfig config = pair.emulated.qp_config(0);
  config.addressing.traffic_class = 26 << 2 | kEct0;
  pair.emulated.add_qp(config);
  pair.real.add_qp(pair.real.qp_config(0, 0, 1));
  WorkRequest write, read;
  write.length = 5000;
  write.rkey = rkey;
  ASSERT_TRUE(pair.emulated.shard.post(Time::zero(), *pair.emulated.qps[0], write));
  read.op = WorkOp::kRead;
  read.length = 5000;
  read.rkey = own;
  ASSERT_TRUE(pair.real.shard.post(Time::zero(), *pair.real.qps[0], read));
  write.rkey = own;
  ASSERT_TRUE(pair.real.shard.post(Time::zero(), *pair.real.qps[0], write));
  pair.run(Time::zero() + Duration::ms(1));
  EXPECT_EQ(pair.real.endpoint.completed.size(), 2u);
  EXPECT_EQ(pair.to_real.size(), 5u + 5u + 1u);
  for (const SentFrame& f : pair.to_real) EXPECT_EQ(Parsed(f.bytes).view.tos, 26 << 2 | kEct0);
}

}  // namespace
}  // namespace understudy
