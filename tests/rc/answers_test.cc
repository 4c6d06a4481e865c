// READs and ATOMICs share one pool for all queue pairs: what happens when it is used up.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dataplane/rc/qp.h"

namespace understudy {
namespace {

constexpr uint32_t kRead = 512;  // two packets
constexpr uint32_t kMtu = 256;
constexpr uint8_t kNothing = 0xff;  // no packet

class AnswersTest : public testing::Test, public QpOwner {
 protected:
  explicit AnswersTest(uint32_t answers = 4) : regions_(1, answers) {
    memory_.resize(4096);
    for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<uint8_t>(i * 7);
    regions_.add(0, {0, 0, memory_.size(), kAccessRemoteAny, memory_.data(), false});
    QpConfig config;
    config.node = 0;
    config.mtu = kMtu;
    config.max_dest_rd_atomic = 4;
    for (int i = 0; i < 3; ++i) {
      qps_.push_back(std::make_unique<Qp>(config, regions_, counters_, *this));
    }
  }
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

  void read(size_t qp, uint32_t psn, uint64_t va, uint32_t bytes = kRead) {
    RoceView view;
    view.opcode = static_cast<uint8_t>(Opcode::kReadRequest);
    view.psn = Psn(psn);
    view.va = va;
    view.rkey = regions_.rkey(0);
    view.dma_length = bytes;
    qps_[qp]->on_packet(Time::zero(), view, nullptr);
  }
  void add_one(size_t qp, uint32_t psn) {
    RoceView view;
    view.opcode = static_cast<uint8_t>(Opcode::kFetchAdd);
    view.psn = Psn(psn);
    view.va = 8;
    view.rkey = regions_.rkey(0);
    view.swap_add = 1;
    qps_[qp]->on_packet(Time::zero(), view, nullptr);
  }
  OutPacket next(size_t qp) {
    OutPacket out;
    bool departs = false;
    uint64_t id = 0;
    if (!qps_[qp]->pull(Time::zero(), TrafficKind::kAny, out, departs, id)) {
      out.clear();
      out.fields.syndrome = kNothing;
    }
    return out;
  }
  /// Both packets of the answer to a READ from `va`.
  void expect_data(size_t qp, uint32_t psn, uint64_t va) {
    for (uint32_t i = 0; i < 2; ++i) {
      const OutPacket out = next(qp);
      EXPECT_EQ(out.fields.opcode, i == 0 ? Opcode::kReadResponseFirst : Opcode::kReadResponseLast);
      EXPECT_EQ(out.fields.psn.value(), psn + i);
      ASSERT_EQ(out.payload_bytes, kMtu);
      EXPECT_EQ(out.payload.bytes + out.payload.offset, memory_.data() + va + i * kMtu);
    }
  }
  uint64_t counted(RcEvent e) const { return counters_[static_cast<size_t>(e)]; }

  std::vector<uint8_t> memory_;
  RegionTable regions_;
  RcCounters counters_{};
  std::vector<std::unique_ptr<Qp>> qps_;
};

TEST_F(AnswersTest, ReadsThatHadToBeForgottenAreExecutedAgain) {
  for (uint32_t i = 0; i < 4; ++i) {
    read(0, i * 2, i * 8);
    expect_data(0, i * 2, i * 8);
  }
  for (uint32_t i = 0; i < 4; ++i) {  // they take the place of the first queue pair's
    read(1, i * 2, 1024);
    expect_data(1, i * 2, 1024);
  }
  read(0, 2, 8);
  expect_data(0, 2, 8);
  EXPECT_EQ(counted(RcEvent::kDuplicateDropped), 0u);
  // What is remembered is compared.
  read(1, 6, 1032);
  EXPECT_EQ(next(1).fields.syndrome, kNothing);
  EXPECT_EQ(counted(RcEvent::kDuplicateDropped), 1u);
  read(1, 6, 1024);
  expect_data(1, 6, 1024);
}

TEST_F(AnswersTest, AtomicsAreForgottenAfterReads) {
  add_one(0, 0);
  const uint64_t original = next(0).fields.atomic_original;
  for (uint32_t i = 0; i < 8; ++i) {
    read(1, i * 2, 0);
    expect_data(1, i * 2, 0);
  }
  add_one(0, 0);  // a duplicate
  const OutPacket again = next(0);
  EXPECT_EQ(again.fields.opcode, Opcode::kAtomicAcknowledge);
  EXPECT_EQ(again.fields.atomic_original, original);
  for (uint32_t i = 0; i < 4; ++i) {
    add_one(2, i);
    EXPECT_EQ(next(2).fields.atomic_original, original + 1 + i);
  }
  add_one(0, 0);  // forgotten: never executed twice
  EXPECT_EQ(next(0).fields.syndrome, kNothing);
  EXPECT_EQ(counted(RcEvent::kDuplicateDropped), 1u);
}

TEST_F(AnswersTest, ARequestWithoutRoomComesAgain) {
  for (uint32_t i = 0; i < 4; ++i) read(0, i * 2, 0);
  read(1, 0, 64);
  const OutPacket rnr = next(1);
  EXPECT_EQ(rnr.fields.opcode, Opcode::kAcknowledge);
  EXPECT_EQ(rnr.fields.syndrome & kSyndromeKindMask, kSyndromeRnrNak);
  EXPECT_EQ(rnr.fields.psn.value(), 0u);
  read(1, 2, 64);  // the next one was on its way
  EXPECT_EQ(next(1).fields.syndrome, kNothing);
  EXPECT_EQ(counted(RcEvent::kPsnGap), 0u);
  read(0, 0, 0);  // nor is there for a repeat: what waits stays
  expect_data(0, 0, 0);
  read(1, 0, 64);
  expect_data(1, 0, 64);
  for (uint32_t i = 1; i < 4; ++i) expect_data(0, i * 2, 0);
  EXPECT_EQ(next(0).fields.syndrome, kNothing);
}

TEST_F(AnswersTest, WhoGoesGivesItsRoomBack) {
  for (uint32_t i = 0; i < 4; ++i) read(0, i * 2, 0);
  qps_.erase(qps_.begin());
  for (uint32_t i = 0; i < 4; ++i) read(0, i * 2, 0);
  EXPECT_EQ(counted(RcEvent::kRnrSent), 0u);
  qps_[0]->modify(Time::zero(), QpState::kReset);
  for (uint32_t i = 0; i < 4; ++i) read(1, i * 2, 0);
  for (uint32_t i = 0; i < 4; ++i) expect_data(1, i * 2, 0);
  EXPECT_EQ(counted(RcEvent::kRnrSent), 0u);
}

}  // namespace
}  // namespace understudy
