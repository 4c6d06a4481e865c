// UD queue pairs of emulated nodes: which messages they take, and how they send them back.
#include <gtest/gtest.h>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr uint32_t kSlot = 3;
constexpr Qpn kSender = 0x123456;
constexpr uint32_t kQkey = 0x11111111;

class Datagrams : public testing::TestWithParam<bool> {
 protected:
  explicit Datagrams(const std::vector<Fault>& faults = {}) {
    ShardConfig config = rig_config(Rate::bits_per_second(1'000'000'000), Duration::us(3));
    config.faults = faults;
    rig = std::make_unique<Rig>(config);
    qp.node = 1;
    qp.qpn = rig->shard.qpn_of(kSlot);
    qp.addressing.src_mac = node_mac(1);
    qp.addressing.src = node_ip(1, GetParam());
    qp.addressing.udp_src = 0xc123;
    qp.qkey = kQkey;
    qp.mtu = 1024;
    qp.next = Psn(0xffffff);
    addressing.src_mac = node_mac(kRealNode);
    addressing.dst_mac = node_mac(1);
    addressing.src = node_ip(kRealNode, GetParam());
    addressing.dst = node_ip(1, GetParam());
    fields.opcode = Opcode::kUdSendOnly;
    fields.dest_qpn = qp.qpn;
    fields.src_qpn = kSender;
    fields.qkey = kQkey;
    for (size_t i = 0; i < message.size(); ++i) message[i] = static_cast<uint8_t>(i * 7);
    EXPECT_EQ(add(), ReplyStatus::kDone);
  }

  ReplyStatus add() {
    Command c;
    c.kind = CommandKind::kAddDatagramQp;
    c.datagrams = &qp;
    return rig->command(c);
  }
  ReplyStatus remove() {
    Command c;
    c.kind = CommandKind::kRemoveQp;
    c.qpn = qp.qpn;
    return rig->command(c);
  }
  void receive() { rig->receive(roce_frame(addressing, fields, message)); }
  void dropped(Drop reason) {
    const uint64_t before = rig->drops(reason);
    receive();
    rig->advance(Duration::ms(1));
    EXPECT_EQ(rig->drops(reason), before + 1) << drop_name(reason);
    EXPECT_TRUE(rig->sink.sent.empty());
  }

  DatagramQp qp;
  std::unique_ptr<Rig> rig;
  RoceAddressing addressing;
  RoceFields fields;
  std::vector<uint8_t> message = std::vector<uint8_t>(1023);
};

TEST_P(Datagrams, AMessageGoesBackToItsSenderAtItsModelledTime) {
  rig->advance(Duration::us(100));
  receive();
  const Time begin = rig->now;
  rig->advance(Duration::ms(1));
  receive();
  rig->advance(Duration::ms(1));
  ASSERT_EQ(rig->sink.sent.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    const Parsed p(rig->sink.sent[i].bytes);
    ASSERT_EQ(p.kind, FrameKind::kRoce);
    EXPECT_TRUE(icrc_ok(p.view, p.roce));
    EXPECT_EQ(p.view.dst_mac, node_mac(kRealNode));  // as learned
    EXPECT_EQ(p.view.src_mac, node_mac(1));
    EXPECT_EQ(p.view.dst, addressing.src);
    EXPECT_EQ(p.view.src, addressing.dst);
    EXPECT_EQ(p.view.udp_src, 0xc123);
    EXPECT_EQ(p.roce.opcode, static_cast<uint8_t>(Opcode::kUdSendOnly));
    EXPECT_EQ(p.roce.dest_qpn, kSender);
    EXPECT_EQ(p.roce.src_qpn, qp.qpn);
    EXPECT_EQ(p.roce.qkey, kQkey);
    EXPECT_EQ(p.roce.psn, Psn(0xffffff).advance(i));
    ASSERT_EQ(p.roce.payload_bytes, message.size());
    EXPECT_TRUE(std::equal(message.begin(), message.end(), p.bytes.begin() + p.roce.payload));
  }
  // Cut through two links there, and two back; the last byte leaves with the model's.
  const uint32_t wire = wire_bytes(static_cast<uint32_t>(rig->sink.sent[0].bytes.size()));
  const Duration pass = Rate::bits_per_second(1'000'000'000).time_for(wire);
  EXPECT_EQ(rig->sink.sent[0].scheduled, begin + pass + pass + Duration::us(12));
}

TEST_P(Datagrams, SeveralSendersAreAnsweredEach) {
  for (uint32_t i = 0; i < 20; ++i) {
    fields.src_qpn = kSender + i % 5;
    message.assign(10 + i, static_cast<uint8_t>(i));
    receive();
  }
  rig->advance(Duration::ms(1));
  ASSERT_EQ(rig->sink.sent.size(), 20u);
  for (uint32_t i = 0; i < 20; ++i) {
    const Parsed p(rig->sink.sent[i].bytes);
    EXPECT_EQ(p.roce.dest_qpn, kSender + i % 5);
    EXPECT_EQ(p.roce.payload_bytes, 10 + i);
  }
}

// rules: A1.8 A1.10 A1.11
TEST_P(Datagrams, WhatDoesNotBelongThereIsDroppedForItsReason) {
  fields.qkey = kQkey + 1;
  dropped(Drop::kWrongQkey);
  fields.qkey = kQkey;
  fields.pkey = 0x8001;
  dropped(Drop::kWrongPkey);
  fields.pkey = 0xffff;
  fields.opcode = Opcode::kSendOnly;
  dropped(Drop::kBadOpcode);
  fields.opcode = Opcode::kUdSendOnly;
  fields.dest_qpn = rig->shard.qpn_of(kSlot + 1);
  dropped(Drop::kUnknownQpn);
  fields.dest_qpn = qp.qpn;
  addressing.src = *IpAddress::parse("10.0.0.77");
  addressing.dst = node_ip(1);
  dropped(Drop::kWrongAddress);
  addressing.src = node_ip(kRealNode, GetParam());
  addressing.dst = node_ip(1, GetParam());
  message.resize(qp.mtu + 1);
  dropped(Drop::kTooLong);
  message.resize(qp.mtu);
  receive();
  rig->advance(Duration::ms(1));
  EXPECT_EQ(rig->sink.sent.size(), 1u);
}

TEST_P(Datagrams, ItsNumberBelongsToOneQueuePairAtATime) {
  EXPECT_EQ(add(), ReplyStatus::kNoSuchObject);
  QpConfig config = rig->qp_config(kSlot);
  Qp rc(config, rig->shard.regions(), rig->shard.rc_counters(), rig->endpoint);
  Command c;
  c.kind = CommandKind::kAddQp;
  c.qp = &rc;
  c.endpoint = &rig->endpoint;
  EXPECT_EQ(rig->command(c), ReplyStatus::kNoSuchObject);
  Command modify;
  modify.kind = CommandKind::kModifyQp;
  modify.qpn = qp.qpn;
  EXPECT_EQ(rig->command(modify), ReplyStatus::kNoSuchObject);
  receive();  // on its way while the queue pair goes
  EXPECT_EQ(remove(), ReplyStatus::kDone);
  EXPECT_EQ(remove(), ReplyStatus::kNoSuchObject);
  rig->advance(Duration::ms(1));
  EXPECT_EQ(rig->drops(Drop::kUnknownQpn), 1u);
  receive();
  EXPECT_EQ(rig->drops(Drop::kUnknownQpn), 2u);
  EXPECT_TRUE(rig->sink.sent.empty());
  EXPECT_EQ(rig->command(c), ReplyStatus::kDone);
  receive();  // for a connected queue pair
  rig->advance(Duration::ms(1));
  EXPECT_TRUE(rig->sink.sent.empty());
}

TEST_P(Datagrams, AFloodIsBoundedAndCounted) {
  for (int i = 0; i < 2000; ++i) receive();
  rig->advance(Duration::ms(100));
  EXPECT_GT(rig->sink.sent.size(), 20u);
  EXPECT_EQ(rig->sink.sent.size() + rig->drops(Drop::kNoBuffer) + rig->drops(Drop::kQueueFull),
            2000u);
  rig->sink.sent.clear();
  receive();
  rig->advance(Duration::ms(1));
  EXPECT_EQ(rig->sink.sent.size(), 1u);  // all packets are free again
}

Fault fault_of_first(FaultAction action, FaultDirection direction, uint64_t nth) {
  Fault f;
  f.action = action;
  f.direction = direction;
  f.packets = FaultPackets::kUd;
  f.node = 1;
  f.queue_pair = 1;
  f.nth = nth;
  return f;
}

class DatagramsMeetFaults : public Datagrams {
 protected:
  DatagramsMeetFaults()
      : Datagrams({fault_of_first(FaultAction::kDuplicate, FaultDirection::kToReal, 1),
                   fault_of_first(FaultAction::kCorrupt, FaultDirection::kToReal, 2),
                   fault_of_first(FaultAction::kMarkCe, FaultDirection::kToReal, 3),
                   fault_of_first(FaultAction::kDrop, FaultDirection::kFromReal, 2)}) {}
};

TEST_P(DatagramsMeetFaults, InBothDirections) {
  for (int i = 0; i < 4; ++i) {
    receive();
    rig->advance(Duration::ms(1));
  }
  ASSERT_EQ(rig->sink.sent.size(), 4u);  // two of the first message, none of the second
  EXPECT_EQ(rig->drops(Drop::kFault), 1u);
  EXPECT_EQ(rig->sink.sent[0].bytes, rig->sink.sent[1].bytes);
  for (size_t i = 0; i < 4; ++i) {
    const Parsed p(rig->sink.sent[i].bytes);
    ASSERT_EQ(p.kind, FrameKind::kRoce);
    EXPECT_EQ(icrc_ok(p.view, p.roce), i != 2);
    EXPECT_EQ(p.view.tos & 3, i == 3 ? 3 : 0);
    EXPECT_EQ(std::equal(message.begin(), message.end(), p.bytes.begin() + p.roce.payload), i != 2);
  }
  receive();
  EXPECT_EQ(remove(), ReplyStatus::kDone);
  rig->advance(Duration::ms(1));
  EXPECT_EQ(rig->sink.sent.size(), 4u);
}

INSTANTIATE_TEST_SUITE_P(, DatagramsMeetFaults, testing::Bool(),
                         [](const auto& info) { return info.param ? "V6" : "V4"; });
INSTANTIATE_TEST_SUITE_P(, Datagrams, testing::Bool(),
                         [](const auto& info) { return info.param ? "V6" : "V4"; });

}  // namespace
}  // namespace understudy
