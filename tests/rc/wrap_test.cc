// More packets and messages than 24 bits can number, with losses on the way: PSN and MSN wrap,
// every message arrives once and in order. UNDERSTUDY_FULL=1 goes round ten times instead of once.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "dataplane/rc/qp.h"
#include "tests/rigs/live_bytes.h"

namespace understudy {
namespace {

uint64_t rounds() {
  const char* full = std::getenv("UNDERSTUDY_FULL");
  return full != nullptr && std::string(full) == "1" ? 10 : 1;
}

/// What the peer sees of a packet, without bytes in between.
RoceView view_of(const OutPacket& out) {
  const RoceFields& f = out.fields;
  RoceView v;
  v.opcode = static_cast<uint8_t>(f.opcode);
  v.ack_request = f.ack_request;
  v.psn = f.psn;
  v.va = f.va;
  v.rkey = f.rkey;
  v.dma_length = f.dma_length;
  v.imm = f.imm;
  v.syndrome = f.syndrome;
  v.msn = f.msn;
  v.payload_bytes = out.payload_bytes;
  v.pad = static_cast<uint8_t>((4 - out.payload_bytes % 4) % 4);
  return v;
}

class Wrap : public testing::Test, public QpOwner {
 protected:
  Wrap() {
    QpConfig c;
    c.node = 1;
    c.mtu = 256;
    c.timeout = 10;
    c.retry_count = 255;
    c.send_queue = 64;
    c.sq_psn = Psn(Psn::kMask - 5);
    c.rq_psn = Psn(3);
    regions_.add(1, {1, 0, uint64_t{1} << 40, kAccessRemoteAny, nullptr, true});
    a_ = std::make_unique<Qp>(c, regions_, counters_, *this);
    std::swap(c.sq_psn, c.rq_psn);
    b_ = std::make_unique<Qp>(c, regions_, counters_, *this);
    b_->responder().set_endless_receives();
  }

  void on_received(Time, Qp&, const Received& m) override {
    if (m.has_imm) {
      EXPECT_EQ(m.imm, static_cast<uint32_t>(received_));
      ++received_;
    }
  }
  void on_completed(Time, Qp&, uint64_t id, WorkStatus status) override {
    EXPECT_EQ(status, WorkStatus::kSuccess);
    EXPECT_EQ(id, completed_++);
  }

  /// Sends `psns` packets' worth of messages of `length` bytes; one packet in 999,983 is lost.
  void run(uint64_t psns, WorkOp op, uint32_t length) {
    WorkRequest r;
    r.op = op;
    r.length = length;
    r.rkey = regions_.rkey(1);
    const uint64_t each = std::max<uint32_t>(1, length / 256);
    const uint64_t until = posted_ + psns / each;
    while (completed_ < until && !HasFailure()) {
      while (posted_ < until) {
        r.id = posted_;
        r.imm = static_cast<uint32_t>(with_imm_);
        if (!a_->post(r)) break;
        ++posted_;
        with_imm_ += op == WorkOp::kRead ? 0 : 1;
      }
      const bool moved = pass(*a_, *b_);
      if (!pass(*b_, *a_) && !moved) {
        now_ = std::max(now_, std::min(a_->deadline(), b_->deadline()));
        a_->on_timer(now_);
        b_->on_timer(now_);
      }
    }
  }

  /// Up to a window of packets from one to the other.
  bool pass(Qp& from, Qp& to) {
    OutPacket out;
    bool departs;
    uint64_t id;
    unsigned n = 0;
    for (; n < 256 && from.pull(now_, TrafficKind::kAny, out, departs, id); ++n) {
      now_ += Duration::ns(10);
      if (++packets_ % 999'983 == 0) continue;
      to.on_packet(now_, view_of(out), nothing_);
    }
    return n > 0;
  }

  static constexpr uint64_t kAllPsns = uint64_t{1} << 24;
  uint64_t posted_ = 0, completed_ = 0, received_ = 0, with_imm_ = 0, packets_ = 0;
  RcCounters counters_{};

 private:
  RegionTable regions_{4};
  uint8_t nothing_[256] = {};
  std::unique_ptr<Qp> a_, b_;
  Time now_;
};

// rules: A4.1 A4.8
TEST_F(Wrap, MessagesOfOnePacketEach) {
  run(kAllPsns / 64, WorkOp::kSendImm, 8);  // all memory that will be needed is there by now
  const long long before = live_bytes;
  run(rounds() * kAllPsns, WorkOp::kSendImm, 8);
  EXPECT_EQ(received_, with_imm_);
  EXPECT_EQ(live_bytes, before);
  EXPECT_GT(counters_[static_cast<size_t>(RcEvent::kRetransmit)], 0u);
}

TEST_F(Wrap, ReadsOfManyPackets) {
  run(kAllPsns / 64, WorkOp::kRead, 1 << 20);
  const long long before = live_bytes;
  run(rounds() * kAllPsns, WorkOp::kRead, 1 << 20);
  EXPECT_EQ(live_bytes, before);
  EXPECT_GT(counters_[static_cast<size_t>(RcEvent::kRetransmit)], 0u);
}

}  // namespace
}  // namespace understudy
