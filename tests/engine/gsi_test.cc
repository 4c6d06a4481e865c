// QP1 of emulated nodes: which datagrams reach control and when, and how control's own leave.
#include <gtest/gtest.h>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

class Gsi : public testing::Test {
 protected:
  Gsi() : rig(rig_config(Rate::bits_per_second(1'000'000'000), Duration::us(3))) {
    addressing.src_mac = node_mac(kRealNode);
    addressing.dst_mac = node_mac(1);
    addressing.src = node_ip(kRealNode);
    addressing.dst = node_ip(1);
    fields.opcode = Opcode::kUdSendOnly;
    fields.dest_qpn = fields.src_qpn = kGsiQpn;
    fields.qkey = kGsiQkey;
    fields.ack_request = true;  // as Linux sends them
    for (size_t i = 0; i < mad.size(); ++i) mad[i] = static_cast<uint8_t>(i);
  }

  void receive() { rig.receive(roce_frame(addressing, fields, mad)); }
  /// Takes one notice, if there is one.
  bool take() {
    return rig.shard.notices().take([&](const Notice& n, std::span<const uint8_t> bytes) {
      notice = n;
      contents.assign(bytes.begin(), bytes.end());
    });
  }
  void dropped(Drop reason) {
    const uint64_t before = rig.drops(reason);
    receive();
    rig.advance(Duration::ms(1));
    EXPECT_EQ(rig.drops(reason), before + 1) << drop_name(reason);
    EXPECT_FALSE(take());
  }

  Rig rig;
  RoceAddressing addressing;
  RoceFields fields;
  std::vector<uint8_t> mad = std::vector<uint8_t>(256);
  Notice notice;
  std::vector<uint8_t> contents;
};

TEST_F(Gsi, ADatagramReachesControlAtItsModelledTime) {
  rig.advance(Duration::us(100));
  receive();
  const Rate rate = Rate::bits_per_second(1'000'000'000);
  const uint32_t wire = wire_bytes(roce_frame_bytes(addressing, fields.opcode, 256));
  const Time due = rig.now + rate.time_for(wire) + Duration::us(6);  // cut through both links
  rig.advance(due - Duration::ps(1));
  EXPECT_FALSE(take());
  rig.advance(due);
  ASSERT_TRUE(take());
  EXPECT_EQ(notice.kind, NoticeKind::kMad);
  EXPECT_EQ(notice.at, due);
  EXPECT_EQ(notice.local, node_ip(1));
  EXPECT_EQ(notice.remote, node_ip(kRealNode));
  EXPECT_EQ(contents, mad);
  EXPECT_FALSE(take());
  EXPECT_TRUE(rig.sink.sent.empty());  // no ACK, whatever the packet asks for
}

// rules: A1.8 A1.10 A1.11
TEST_F(Gsi, WhatDoesNotBelongThereIsDroppedForItsReason) {
  fields.qkey = 0x11111111;
  dropped(Drop::kWrongQkey);
  fields.qkey = kGsiQkey;
  fields.pkey = 0x8001;
  dropped(Drop::kWrongPkey);
  fields.pkey = 0x7fff;  // a limited member of the default partition may speak
  receive();
  rig.advance(Duration::ms(1));
  EXPECT_TRUE(take());
  fields.pkey = 0xffff;
  fields.opcode = Opcode::kSendOnly;
  dropped(Drop::kUnknownQpn);
  fields.opcode = Opcode::kUdSendOnly;
  addressing.src = *IpAddress::parse("10.0.0.77");
  dropped(Drop::kWrongAddress);
  addressing.src = node_ip(kRealNode);
  addressing.dst = *IpAddress::parse("10.0.0.77");
  dropped(Drop::kWrongAddress);
  addressing.dst = node_ip(kRealNode);
  dropped(Drop::kWrongAddress);
}

TEST_F(Gsi, AFloodThatControlDoesNotReadIsBoundedAndCounted) {
  size_t taken = 0;
  for (int i = 0; i < 8000; ++i) {
    receive();
    rig.advance(Duration::us(10));
  }
  while (take()) ++taken;
  EXPECT_GT(taken, 1000u);
  EXPECT_EQ(taken + rig.drops(Drop::kControlBusy), 8000u);
}

TEST_F(Gsi, ControlsDatagramCrossesTheFabricToTheRealNode) {
  Datagram datagram;
  datagram.addressing = addressing;
  std::swap(datagram.addressing.src, datagram.addressing.dst);
  datagram.addressing.src_mac = node_mac(1);
  datagram.addressing.dst_mac = MacAddress{};  // as learned
  datagram.bytes = mad;
  Command c;
  c.kind = CommandKind::kSendDatagram;
  c.node = 1;
  c.datagram = &datagram;
  EXPECT_EQ(rig.command(c), ReplyStatus::kDone);
  EXPECT_EQ(rig.command(c), ReplyStatus::kDone);
  datagram.bytes.assign(256, 0xee);  // control's again
  EXPECT_TRUE(rig.sink.sent.empty());
  rig.advance(Duration::ms(1));
  ASSERT_EQ(rig.sink.sent.size(), 2u);
  EXPECT_GT(rig.sink.sent[0].scheduled, Time::zero() + Duration::us(6));
  for (uint32_t i = 0; i < 2; ++i) {
    const Parsed p(rig.sink.sent[i].bytes);
    ASSERT_EQ(p.kind, FrameKind::kRoce);
    EXPECT_TRUE(icrc_ok(p.view, p.roce));
    EXPECT_EQ(p.view.dst_mac, node_mac(kRealNode));
    EXPECT_EQ(p.view.dst, node_ip(kRealNode));
    EXPECT_EQ(p.roce.opcode, static_cast<uint8_t>(Opcode::kUdSendOnly));
    EXPECT_EQ(p.roce.dest_qpn, kGsiQpn);
    EXPECT_EQ(p.roce.src_qpn, kGsiQpn);
    EXPECT_EQ(p.roce.qkey, kGsiQkey);
    EXPECT_EQ(p.roce.psn.value(), i);
    EXPECT_TRUE(std::equal(mad.begin(), mad.end(), p.bytes.begin() + p.roce.payload));
  }
  c.node = 99;
  EXPECT_EQ(rig.command(c), ReplyStatus::kNoSuchObject);
}

}  // namespace
}  // namespace understudy
