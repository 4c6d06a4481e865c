// What a shard does with frames of the device: every drop has its reason, nothing reaches memory it
// should not.
#include <gtest/gtest.h>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr size_t kBth = 14 + 20 + 8;  // of an untagged frame over IPv4

class Rx : public testing::Test {
 protected:
  void build(const ShardConfig& config) {
    rig = std::make_unique<Rig>(config);
    memory.assign(1 << 16, 0);
    rkey = rig->add_region(1, memory.size(), memory.data());
    rig->add_qp(rig->qp_config(0));
    fields.opcode = Opcode::kWriteOnly;
    fields.dest_qpn = rig->shard.qpn_of(0);
    fields.rkey = rkey;
    fields.ack_request = true;
    addressing = rig->qps[0]->config().addressing;
    std::swap(addressing.src_mac, addressing.dst_mac);
    std::swap(addressing.src, addressing.dst);
  }
  void SetUp() override { build(rig_config(Rate(), Duration())); }

  std::vector<uint8_t> frame(uint32_t payload = 64) {
    fields.dma_length = payload;
    return roce_frame(addressing, fields, std::vector<uint8_t>(payload, 0xab));
  }
  void receive(std::span<const uint8_t> bytes) {
    rig->receive(bytes);
    rig->advance(Duration::us(1));
  }
  /// Expects that `bytes` is dropped for `reason` alone and answered by nothing.
  void dropped(std::span<const uint8_t> bytes, Drop reason) {
    SCOPED_TRACE(drop_name(reason));
    const auto before = rig->shard.counters().drops;
    receive(bytes);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(rig->shard.counters().drops[i] - before[i], i == size_t(reason) ? 1u : 0u)
          << drop_name(static_cast<Drop>(i));
    }
    EXPECT_TRUE(rig->sink.sent.empty());
    EXPECT_TRUE(rig->endpoint.received.empty());
    EXPECT_EQ(memory[0], 0);
  }
  /// Expects that `bytes` is executed and answered.
  void accepted(std::span<const uint8_t> bytes) {
    receive(bytes);
    ASSERT_EQ(rig->endpoint.received.size(), 1u);
    ASSERT_EQ(rig->sink.sent.size(), 1u);
    const Parsed answer(rig->sink.sent[0].bytes);
    ASSERT_EQ(answer.kind, FrameKind::kRoce);
    EXPECT_TRUE(icrc_ok(answer.view, answer.roce));
    EXPECT_EQ(answer.roce.syndrome & kSyndromeKindMask, kSyndromeAck);
    EXPECT_EQ(answer.view.dst_mac, addressing.src_mac);
    EXPECT_EQ(answer.view.src, addressing.dst);
  }
  std::unique_ptr<Rig> rig;
  std::vector<uint8_t> memory;
  Rkey rkey = 0;
  RoceFields fields;
  RoceAddressing addressing;
};

TEST_F(Rx, GoodWrite) {
  accepted(frame());
  EXPECT_EQ(memory[0], 0xab);
  EXPECT_EQ(memory[63], 0xab);
  EXPECT_EQ(memory[64], 0);
}

// rules: A1.1
TEST_F(Rx, GoodWriteOverIpv6) {
  QpConfig config = rig->qp_config(1, 1, kRealNode, true);
  rig->add_qp(config);
  addressing.src = node_ip(0, true);
  addressing.dst = node_ip(1, true);
  fields.dest_qpn = config.qpn;
  accepted(frame());
}

// rules: A1.8 A2.3 A3.3
TEST_F(Rx, DamagedFrames) {
  auto f = frame();
  dropped({f.data(), f.size() - 1}, Drop::kTruncated);
  f.back() ^= 1;
  dropped(f, Drop::kBadIcrc);
  f = frame();
  f[kBth + 12 + 16] ^= 1;  // payload
  dropped(f, Drop::kBadIcrc);
  f = frame();
  f[kBth + 1] |= 1;
  dropped(f, Drop::kBadTver);
  f = frame();
  f[kBth] = 0x2c;  // a READ of an unreliable connection
  dropped(f, Drop::kBadOpcode);
  f = frame();
  f[14] = 0x65;
  dropped(f, Drop::kBadIp);
  f = frame(0);
  f[kBth + 1] |= 0x30;
  dropped(f, Drop::kBadPad);
  f = frame();
  f[12] = 0x12;
  dropped(f, Drop::kOtherEthertype);
}

// rules: A1.5 A1.8 A1.10
TEST_F(Rx, NobodysFrames) {
  fields.dest_qpn = rig->shard.qpn_of(1);
  dropped(frame(), Drop::kUnknownQpn);
  for (Qpn qpn : {Qpn{0}, kGsiQpn, Qpn{0x0f}, Qpn{0x10 + 64}, Qpn{0xffffff},
                  Qpn{(1u << kQpnShardShift) + kFirstQpn}}) {
    fields.dest_qpn = qpn;
    dropped(frame(), Drop::kUnknownQpn);
  }
  fields.dest_qpn = rig->shard.qpn_of(0);
  addressing.src = *IpAddress::parse("10.0.0.9");
  dropped(frame(), Drop::kWrongAddress);
  addressing.src = node_ip(0);
  addressing.dst = *IpAddress::parse("10.0.0.9");
  dropped(frame(), Drop::kWrongAddress);
  addressing.dst = node_ip(1);
  fields.pkey = 0x1234;
  dropped(frame(), Drop::kWrongPkey);
  fields.pkey = 0x7fff;  // limited member, and our side is full
  accepted(frame());
}

// rules: A1.10
TEST_F(Rx, BothLimitedMembersDoNotTalk) {
  QpConfig config = rig->qp_config(1);
  config.pkey = 0x7fff;
  rig->add_qp(config);
  fields.dest_qpn = config.qpn;
  fields.pkey = 0x7fff;
  dropped(frame(), Drop::kWrongPkey);
  fields.pkey = 0xffff;
  accepted(frame());
}

// rules: A1.12
TEST_F(Rx, Vlan) {
  addressing.vlan_tci = 100;
  dropped(frame(), Drop::kWrongVlan);
  addressing.vlan_tci = 0x6000;  // a priority, no VLAN
  accepted(frame());

  ShardConfig config = rig_config(Rate(), Duration());
  tag_nodes(config, 0x6064);
  build(config);
  addressing.vlan_tci.reset();
  dropped(frame(), Drop::kWrongVlan);
  addressing.vlan_tci = 101;
  dropped(frame(), Drop::kWrongVlan);
  addressing.vlan_tci = 0x2064;  // our VLAN with another priority
  accepted(frame());
  EXPECT_EQ(Parsed(rig->sink.sent[0].bytes).view.vlan[0].tci, 0x6064);
}

// rules: A4.10
TEST_F(Rx, ABurstIsAcknowledgedOncePerQueuePair) {
  rig->add_qp(rig->qp_config(1));
  std::vector<std::vector<uint8_t>> frames;
  for (uint32_t i = 0; i < 16; ++i) {
    fields.dest_qpn = rig->shard.qpn_of(i % 2);
    fields.psn = Psn(i / 2);
    frames.push_back(frame());
  }
  const std::vector<std::span<const uint8_t>> burst(frames.begin(), frames.end());
  rig->shard.rx({rig->now, Duration(), burst});
  rig->advance(Duration::us(1));
  EXPECT_EQ(rig->endpoint.received.size(), 16u);
  ASSERT_EQ(rig->sink.sent.size(), 2u);
  for (const SentFrame& sent : rig->sink.sent) {
    const Parsed ack(sent.bytes);
    EXPECT_EQ(ack.roce.syndrome & kSyndromeKindMask, kSyndromeAck);
    EXPECT_EQ(ack.roce.psn, Psn(7));
    EXPECT_EQ(ack.roce.msn, 8u);
  }
}

// rules: A1.12
TEST_F(Rx, AnswersTravelInTheClassOfTheirQueuePair) {
  rig->qps[0]->addressing().traffic_class = 0x68;
  addressing.traffic_class = 0x02;
  accepted(frame());
  EXPECT_EQ(Parsed(rig->sink.sent[0].bytes).view.tos, 0x68);
}

// rules: A1.9
TEST_F(Rx, MigReqIsOneUnlessConfigured) {
  for (bool migration : {true, false}) {
    QpConfig config = rig->qp_config(migration ? 1 : 2);
    EXPECT_TRUE(config.migration);
    config.migration = migration;
    rig->add_qp(config);
    fields.dest_qpn = config.qpn;
    rig->endpoint.received.clear();
    rig->sink.sent.clear();
    accepted(frame());
    EXPECT_EQ((rig->sink.sent[0].bytes[kBth + 1] & 0x40) != 0, migration);
  }
}

// rules: A1.3 A1.7
TEST_F(Rx, ChecksumAndReservedBitsAreNotLookedAt) {
  auto f = frame();
  f[kBth - 2] = 0x12;  // UDP checksum; it and the next are not covered by the ICRC
  f[kBth + 4] |= 0x3f;
  f[kBth + 8] |= 0x7f;
  finish_roce(f.data(), addressing, fields.opcode, 64);
  accepted(f);
  EXPECT_EQ(rig->sink.sent[0].bytes[kBth + 4], 0);
  EXPECT_EQ(rig->sink.sent[0].bytes[kBth + 8] & 0x7f, 0);
}

// rules: A4.7
TEST_F(Rx, WrongRkeyIsRefusedOnTheWire) {
  fields.rkey = rkey + 0x100;
  receive(frame());
  ASSERT_EQ(rig->sink.sent.size(), 1u);
  EXPECT_EQ(Parsed(rig->sink.sent[0].bytes).roce.syndrome, 0x62);
  EXPECT_EQ(memory[0], 0);
  EXPECT_EQ(rig->rc(RcEvent::kRemoteAccess), 1u);
}

// rules: A4.5
TEST_F(Rx, LongerThanThePathMtuIsRefusedOnTheWire) {
  receive(frame(1028));
  ASSERT_EQ(rig->sink.sent.size(), 1u);
  EXPECT_EQ(Parsed(rig->sink.sent[0].bytes).roce.syndrome, 0x61);
  EXPECT_EQ(rig->rc(RcEvent::kLengthError), 1u);
}

TEST_F(Rx, FramesLongerThanAnyBufferAreDropped) {
  // A port with a large MTU may hand these over; a packet's buffer has 9216 bytes.
  for (uint32_t payload : {9217u, 20'000u, 60'000u}) dropped(frame(payload), Drop::kTooLong);
}

// rules: A2.4
TEST_F(Rx, IcrcMayBeSampledOrOff) {
  for (VerifyIcrc verify : {VerifyIcrc::kSampled, VerifyIcrc::kOff}) {
    ShardConfig config = rig_config(Rate(), Duration());
    config.verify = verify;
    build(config);
    for (uint32_t i = 0; i < 640; ++i) {
      auto f = frame();
      f.back() ^= 1;
      receive(f);
    }
    EXPECT_EQ(rig->drops(Drop::kBadIcrc), verify == VerifyIcrc::kOff ? 0u : 10u);
  }
}

TEST_F(Rx, CongestionMarksAndNotificationsAreCounted) {
  addressing.traffic_class = 0x03;
  receive(frame());
  EXPECT_EQ(rig->shard.counters().ce_marked, 1u);
  EXPECT_EQ(rig->sink.sent.size(), 2u);  // a CNP and an ACK
  rig->sink.sent.clear();
  addressing.traffic_class = 0x02;
  fields.opcode = Opcode::kCnp;
  receive(roce_frame(addressing, fields, std::vector<uint8_t>(kCnpPadBytes)));
  EXPECT_EQ(rig->shard.counters().cnp_received, 1u);
  EXPECT_EQ(rig->shard.counters().ce_marked, 1u);
  EXPECT_TRUE(rig->sink.sent.empty());
}

TEST_F(Rx, TheRealNodesMacIsLearned) {
  ShardConfig config = rig_config(Rate(), Duration());
  NodeTable unknown;
  for (NodeNic nic : config.nodes.nics()) {
    if (nic.real) nic.mac = MacAddress{};
    unknown.add(nic);
  }
  config.nodes = unknown;
  build(config);
  rig->qps[0]->addressing().dst_mac = MacAddress{};
  addressing.src_mac = MacAddress{{2, 9, 9, 9, 9, 9}};
  accepted(frame());
  EXPECT_EQ(rig->shard.nodes()[0].mac, addressing.src_mac);
}

TEST_F(Rx, ArrivalUncertaintyReachesTheEndpoint) {
  Duration seen;
  rig->endpoint.then = [&](Time, Qp&) { seen = rig->shard.arrival_uncertainty(); };
  rig->receive(frame(), Duration::ns(345));
  rig->advance(Duration::us(1));
  EXPECT_EQ(seen, Duration::ns(345));
}

TEST_F(Rx, EveryDropHasAName) {
  for (size_t i = 0; i < size_t(Drop::kCount); ++i) EXPECT_NE(drop_name(Drop(i)), nullptr) << i;
  for (size_t i = 0; i < size_t(RcEvent::kCount); ++i) {
    EXPECT_NE(rc_event_name(RcEvent(i)), nullptr) << i;
  }
}

}  // namespace
}  // namespace understudy
