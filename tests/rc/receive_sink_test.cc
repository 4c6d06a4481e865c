// A responder whose receives are somebody else's: when one is taken, where bytes go, and what ends
// the connection.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "dataplane/rc/qp.h"

namespace understudy {
namespace {

constexpr uint32_t kMtu = 256;

class Sink final : public ReceiveSink {
 public:
  bool take() override {
    ++asked;
    if (receives == 0) return false;
    --receives;
    return true;
  }
  std::optional<NakCode> place(uint32_t offset, std::span<const uint8_t> bytes) override {
    if (refuses) return refuses;
    got.resize(offset);  // what was there beyond it would be a message before
    got.append(bytes.begin(), bytes.end());
    return std::nullopt;
  }
  int receives = 0, asked = 0;
  std::string got;
  std::optional<NakCode> refuses;
};

class ReceiveSinkTest : public testing::Test, public QpOwner {
 protected:
  ReceiveSinkTest() {
    QpConfig config;
    config.mtu = kMtu;
    config.rq_psn = Psn(7);
    qp_.emplace(config, regions_, counters_, *this);
    qp_->responder().set_receive_sink(&sink_);
  }
  void on_received(Time, Qp&, const Received& message) override { messages_.push_back(message); }
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

  void hear(Opcode opcode, uint32_t psn, const std::string& bytes) {
    RoceView view;
    view.opcode = static_cast<uint8_t>(opcode);
    view.psn = Psn(psn);
    view.ack_request = true;
    view.payload_bytes = static_cast<uint32_t>(bytes.size());
    view.pad = static_cast<uint8_t>((4 - bytes.size() % 4) % 4);
    qp_->on_packet(Time::zero(), view, reinterpret_cast<const uint8_t*>(bytes.data()));
  }
  /// Syndrome of what it says next.
  int answer() {
    bool departs = false;
    uint64_t id = 0;
    OutPacket out;
    return qp_->pull(Time::zero(), TrafficKind::kAny, out, departs, id) ? out.fields.syndrome : -1;
  }

  RegionTable regions_{4};
  RcCounters counters_{};
  Sink sink_;
  std::optional<Qp> qp_;
  std::vector<Received> messages_;
};

TEST_F(ReceiveSinkTest, OneReceiveIsTakenForAMessageOfSeveralPackets) {
  sink_.receives = 5;
  const std::string first(kMtu, 'a');
  hear(Opcode::kSendFirst, 7, first);
  hear(Opcode::kSendLast, 8, "end.");
  EXPECT_EQ(sink_.receives, 4);
  EXPECT_EQ(sink_.got, first + "end.");
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_EQ(messages_[0].length, kMtu + 4);
  EXPECT_EQ(answer(), kSyndromeAck | kNoCredits);
}

TEST_F(ReceiveSinkTest, WithoutAReceiveThePeerIsToComeAgain) {
  hear(Opcode::kSendOnly, 7, "lost");
  EXPECT_EQ(answer() & kSyndromeKindMask, kSyndromeRnrNak);
  EXPECT_TRUE(messages_.empty());
  sink_.receives = 1;
  hear(Opcode::kSendOnly, 7, "came");
  EXPECT_EQ(sink_.got, "came");
  EXPECT_EQ(messages_.size(), 1U);
}

TEST_F(ReceiveSinkTest, AWriteTakesOneOnlyForItsImmediate) {
  hear(Opcode::kWriteOnly, 7, "");
  EXPECT_EQ(sink_.asked, 0);
  sink_.receives = 1;
  hear(Opcode::kWriteOnlyImm, 8, "");
  EXPECT_EQ(sink_.receives, 0);
  EXPECT_EQ(messages_.size(), 2U);
}

TEST_F(ReceiveSinkTest, WhatItRefusesEndsTheConnectionWithItsCode) {
  sink_.receives = 1;
  sink_.refuses = NakCode::kRemoteOperational;
  hear(Opcode::kSendOnly, 7, "long");
  EXPECT_EQ(answer(), kSyndromeNak | static_cast<int>(NakCode::kRemoteOperational));
  EXPECT_EQ(qp_->state(), QpState::kError);
  EXPECT_TRUE(messages_.empty());
}

TEST_F(ReceiveSinkTest, StaysAcrossReset) {
  EXPECT_TRUE(qp_->modify(Time::zero(), QpState::kReset));
  EXPECT_TRUE(qp_->modify(Time::zero(), QpState::kInit));
  EXPECT_TRUE(qp_->modify(Time::zero(), QpState::kRtr));
  sink_.receives = 1;
  hear(Opcode::kSendOnly, 7, "here");
  EXPECT_EQ(sink_.got, "here");
}

TEST(SendAttributes, AreThoseOfTheWayToRts) {
  class NoOwner : public QpOwner {
    void on_received(Time, Qp&, const Received&) override {}
    void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
  } owner;
  RegionTable regions(1);
  RcCounters counters{};
  QpConfig config;
  config.start = QpState::kRtr;
  config.max_rd_atomic = 0;
  Qp qp(config, regions, counters, owner);
  qp.set_send_attributes(Psn(0x1234), 9, 3, 2, 1);
  ASSERT_TRUE(qp.modify(Time::zero(), QpState::kRts));
  WorkRequest read;
  read.op = WorkOp::kRead;
  ASSERT_TRUE(qp.post(read));
  EXPECT_EQ(qp.next_psn(), Psn(0x1234));
  bool departs = false;
  uint64_t id = 0;
  OutPacket out;
  ASSERT_TRUE(qp.pull(Time::zero(), TrafficKind::kAny, out, departs, id));
  EXPECT_EQ(qp.deadline(), Time::zero() + Duration::ns(4096) * (1 << 9));
}

}  // namespace
}  // namespace understudy
