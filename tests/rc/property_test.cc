// Two queue pairs joined by a link that loses, repeats and delays packets, under virtual time: a
// random mix of operations must complete in order, with every byte right, for every seed.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>

#include "dataplane/rc/qp.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

constexpr uint64_t kVa = 0x7f0000000000;
constexpr size_t kSlots = 24;  ///< operations of one side; each has memory of its own
constexpr size_t kSlotBytes = 6000;

struct Link {
  unsigned lost_permille, repeated_permille, reordered_permille;
};

/// One side: memory that the peer writes and reads, and the operations it posts itself.
class Side : public QpOwner {
 public:
  Side(uint64_t seed, const QpConfig& config)
      : regions_(4),
        random_(seed),
        exposed_(kSlots * kSlotBytes),
        source_(random_bytes(kSlots * kSlotBytes, random_)),
        fetched_(kSlots * kSlotBytes),
        received_(kSlotBytes) {
    for (size_t i = exposed_.size() / 2; i < exposed_.size(); ++i) {
      exposed_[i] = static_cast<uint8_t>(random_());  // upper half: for the peer's READs
    }
    regions_.add(1, {config.node, kVa, exposed_.size(), kAccessRemoteRead | kAccessRemoteWrite,
                     exposed_.data(), true});
    qp = std::make_unique<Qp>(config, regions_, counters, *this);
    qp->responder().set_receive_buffer(received_);
    qp->responder().post_receives(1);  // more are posted late, so that RNR happens
  }

  void post_next(Side& peer) {
    if (posted_ == kSlots) return;
    WorkRequest r;
    r.id = posted_;
    r.op = static_cast<WorkOp>(random_() % 5);
    r.length = static_cast<uint32_t>(random_() % 7 == 0 ? 0 : random_() % (kSlotBytes / 2));
    const uint64_t at = posted_ * (kSlotBytes / 2);
    r.remote_va = kVa + at + (r.op == WorkOp::kRead ? exposed_.size() / 2 : 0);
    r.rkey = peer.regions_.rkey(1);
    r.imm = static_cast<uint32_t>(random_());
    r.payload.bytes = source_.data();
    r.payload.offset = at;
    r.read_to = fetched_.data() + at;
    ASSERT_TRUE(qp->post(r));
    work_.push_back(r);
    ++posted_;
  }

  void on_received(Time, Qp&, const Received& m) override {
    Arrival a{m, {}};
    if (!m.is_write) a.bytes.assign(received_.begin(), received_.begin() + m.length);
    arrivals_.push_back(a);
  }
  void on_completed(Time, Qp&, uint64_t id, WorkStatus status) override {
    EXPECT_EQ(status, WorkStatus::kSuccess);
    EXPECT_EQ(id, completed_) << "completions come in order";
    ++completed_;
  }
  bool done() const { return completed_ == kSlots; }
  size_t posted() const { return posted_; }

  /// Everything this side asked for happened at `peer`, once and in order.
  void expect_all(const Side& peer) const {
    size_t seen = 0;
    for (const WorkRequest& r : work_) {
      const uint64_t at = r.id * (kSlotBytes / 2);
      const auto source = source_.begin() + static_cast<ptrdiff_t>(at);
      if (r.op == WorkOp::kRead) {
        const auto from = peer.exposed_.begin() + static_cast<ptrdiff_t>(r.remote_va - kVa);
        EXPECT_TRUE(
            std::equal(from, from + r.length, fetched_.begin() + static_cast<ptrdiff_t>(at)))
            << "READ " << r.id;
        continue;
      }
      ASSERT_LT(seen, peer.arrivals_.size());
      const Arrival& a = peer.arrivals_[seen++];
      const bool write = r.op == WorkOp::kWrite || r.op == WorkOp::kWriteImm;
      const bool imm = r.op == WorkOp::kSendImm || r.op == WorkOp::kWriteImm;
      EXPECT_EQ(a.message.is_write, write) << r.id;
      EXPECT_EQ(a.message.length, r.length) << r.id;
      EXPECT_EQ(a.message.has_imm, imm) << r.id;
      EXPECT_EQ(a.message.imm, imm ? r.imm : a.message.imm);
      const auto got = write ? peer.exposed_.begin() + static_cast<ptrdiff_t>(at) : a.bytes.begin();
      EXPECT_TRUE(std::equal(source, source + r.length, got)) << "contents of " << r.id;
    }
    EXPECT_EQ(seen, peer.arrivals_.size()) << "nothing arrived twice";
  }

 private:
  RegionTable regions_;  // outlives the queue pair

 public:
  std::unique_ptr<Qp> qp;
  RcCounters counters{};

 private:
  struct Arrival {
    Received message;
    std::vector<uint8_t> bytes;
  };
  std::mt19937_64 random_;
  std::vector<uint8_t> exposed_, source_, fetched_, received_;
  std::deque<WorkRequest> work_;
  std::vector<Arrival> arrivals_;
  size_t posted_ = 0, completed_ = 0;
};

class Pair {
 public:
  Pair(uint64_t seed, const Link& link) : random_(seed), link_(link) {
    const uint32_t mtus[] = {256, 512, 1024};
    QpConfig a;
    a.node = 1;
    a.qpn = 0x10;
    a.remote_qpn = 0x11;
    a.mtu = mtus[random_() % 3];
    a.timeout = 8;  // 1.05 ms
    a.retry_count = 200;
    a.min_rnr_timer = 1;
    a.max_rd_atomic = a.max_dest_rd_atomic = static_cast<uint8_t>(1 + random_() % 4);
    a.sq_psn =
        Psn(static_cast<uint32_t>(random_() % 2 != 0 ? Psn::kMask - random_() % 64 : random_()));
    a.rq_psn = Psn(static_cast<uint32_t>(random_()));
    a.addressing = sample_addressing(false);
    QpConfig b = a;
    b.node = 2;
    std::swap(b.qpn, b.remote_qpn);
    std::swap(b.sq_psn, b.rq_psn);
    sides_[0] = std::make_unique<Side>(seed * 2 + 1, a);
    sides_[1] = std::make_unique<Side>(seed * 2 + 2, b);
  }

  /// Runs until all work is done; false when it is not within 10 s of virtual time.
  bool run() {
    const Time end = Time::zero() + Duration::s(10);
    while (now_ < end) {
      if (sides_[0]->done() && sides_[1]->done() && calendar_.empty()) return true;
      for (unsigned s : {0u, 1u}) act(s);
      const Time next = next_time();
      now_ = std::max(now_ + Duration::ns(1), next);
      if (next.is_never()) now_ = now_ + Duration::us(5);
      run_due();
    }
    return false;
  }

  void expect_all() const {
    sides_[0]->expect_all(*sides_[1]);
    sides_[1]->expect_all(*sides_[0]);
  }
  uint64_t counted(RcEvent e) const {
    return sides_[0]->counters[static_cast<size_t>(e)] +
           sides_[1]->counters[static_cast<size_t>(e)];
  }

 private:
  void act(unsigned s) {
    Side& side = *sides_[s];
    if (random_() % 4 == 0) side.post_next(*sides_[1 - s]);
    if (random_() % 16 == 0) side.qp->responder().post_receives(1);
    if (random_() % 3 == 0 && side.qp->can_send(now_, TrafficKind::kAny)) transmit(s);
  }

  void transmit(unsigned s) {
    OutPacket out;
    bool departs;
    uint64_t id;
    ASSERT_TRUE(sides_[s]->qp->pull(now_, TrafficKind::kAny, out, departs, id));
    std::vector<uint8_t> payload(out.payload_bytes);
    out.payload.write(payload);
    const auto frame = roce_frame(sample_addressing(false), out.fields, payload);
    for (unsigned copies = random_() % 1000 < link_.repeated_permille ? 2 : 1; copies > 0;
         --copies) {
      if (random_() % 1000 < link_.lost_permille) continue;
      Duration delay = Duration::us(2);
      if (random_() % 1000 < link_.reordered_permille) {
        delay += Duration::ns(static_cast<int64_t>(random_() % 2'000'000));
      }
      calendar_.emplace(now_ + delay, std::pair(1 - s, frame));
    }
  }

  Time next_time() const {
    Time next = calendar_.empty() ? Time::never() : calendar_.begin()->first;
    for (const auto& side : sides_) {
      if (side->qp->can_send(now_, TrafficKind::kAny) || side->posted() < kSlots) return now_;
      next = std::min(next, side->qp->deadline());
    }
    return next;
  }

  void run_due() {
    while (!calendar_.empty() && calendar_.begin()->first <= now_) {
      const auto [to, frame] = calendar_.begin()->second;
      calendar_.erase(calendar_.begin());
      const Parsed p(frame);
      ASSERT_EQ(p.kind, FrameKind::kRoce);
      sides_[to]->qp->on_packet(now_, p.roce, p.bytes.data() + p.roce.payload);
    }
    for (const auto& side : sides_) {
      if (side->qp->deadline() <= now_) side->qp->on_timer(now_);
    }
  }

  std::mt19937_64 random_;
  Link link_;
  std::unique_ptr<Side> sides_[2];
  std::multimap<Time, std::pair<unsigned, std::vector<uint8_t>>> calendar_;
  Time now_;
};

struct Totals {
  uint64_t retransmits = 0, naks = 0, rnrs = 0, duplicates = 0, timeouts = 0, implied = 0;
};

Totals run_seeds(uint64_t first, uint64_t count, const Link& link) {
  Totals t;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pair pair(seed, link);
    EXPECT_TRUE(pair.run()) << "work is left";
    if (!testing::Test::HasFailure()) pair.expect_all();
    if (testing::Test::HasFailure()) break;
    t.retransmits += pair.counted(RcEvent::kRetransmit);
    t.naks += pair.counted(RcEvent::kNakReceived);
    t.rnrs += pair.counted(RcEvent::kRnrReceived);
    t.duplicates += pair.counted(RcEvent::kDuplicateRequest);
    t.timeouts += pair.counted(RcEvent::kTimeout);
    t.implied += pair.counted(RcEvent::kImpliedNak);
  }
  return t;
}

TEST(RcProperty, GoodLinkNeverTimesOut) {
  const Totals t = run_seeds(1, 150, {0, 0, 0});
  EXPECT_EQ(t.timeouts, 0u);
  EXPECT_EQ(t.naks, 0u);
  EXPECT_EQ(t.implied, 0u);
  EXPECT_GT(t.rnrs, 0u);
}

TEST(RcProperty, LossyLink) {
  const Totals t = run_seeds(1000, 300, {30, 0, 0});
  EXPECT_GT(t.retransmits, 0u);
  EXPECT_GT(t.naks, 0u);
  EXPECT_GT(t.timeouts, 0u);
  EXPECT_GT(t.implied, 0u);
}

TEST(RcProperty, VeryLossyLink) { run_seeds(2000, 60, {250, 0, 0}); }

TEST(RcProperty, RepeatingLink) {
  const Totals t = run_seeds(3000, 150, {0, 200, 0});
  EXPECT_GT(t.duplicates, 0u);
}

TEST(RcProperty, LossyRepeatingAndReorderingLink) {
  const Totals t = run_seeds(4000, 300, {20, 50, 50});
  EXPECT_GT(t.duplicates, 0u);
  EXPECT_GT(t.naks, 0u);
}

}  // namespace
}  // namespace understudy
