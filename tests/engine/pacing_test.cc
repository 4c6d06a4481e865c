// A shard's links and queue pairs keep their rates: see node_pacing_test.cc for what that means.
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr uint32_t kMtu = 4096;

/// An emulated node on a link of `rate`; the real node's link takes no time.
class PacingRig {
 public:
  PacingRig(Rate link, size_t queue_pairs) : rig_(config_of(link)) {
    for (uint32_t slot = 0; slot < queue_pairs; ++slot) {
      QpConfig q = rig_.qp_config(slot);
      q.mtu = kMtu;
      q.send_queue = 1;
      qps_.push_back(
          std::make_unique<Qp>(q, rig_.shard.regions(), rig_.shard.rc_counters(), rig_.endpoint));
    }
  }
  /// Starts a WRITE that does not end, under this law or none.
  void start(uint32_t slot, std::unique_ptr<Controller> law = nullptr) {
    Command c;
    c.kind = CommandKind::kAddQp;
    c.qp = qps_[slot].get();
    c.endpoint = &rig_.endpoint;
    if (law != nullptr) {
      QpControl::Setup setup;
      setup.controller = std::move(law);
      controls_.push_back(std::make_unique<QpControl>(std::move(setup)));
      c.control = controls_.back().get();
    }
    ASSERT_EQ(rig_.command(c), ReplyStatus::kDone);
    WorkRequest r;
    r.length = 1u << 31;
    r.rkey = 0x100;
    ASSERT_TRUE(rig_.shard.post(rig_.now, *qps_[slot], r));
  }
  /// `look` sees every frame that leaves.
  template <typename Look>
  void run(Time until, Look look) {
    while (rig_.shard.next_wake() <= until) {
      rig_.poll(std::max(rig_.now, rig_.shard.next_wake()));
      for (const SentFrame& frame : rig_.sink.sent) look(frame);
      rig_.sink.sent.clear();
    }
  }

 private:
  static ShardConfig config_of(Rate link) {
    ShardConfig c = rig_config(link, Duration::us(1));
    c.rates[0] = Rate();
    c.control_users = 1;
    return c;
  }
  Rig rig_;
  std::vector<std::unique_ptr<Qp>> qps_;
  std::vector<std::unique_ptr<QpControl>> controls_;
};

TEST(ShardPacing, ALinksRateIsExactFrom1MbitTo400Gbit) {
  std::vector<uint64_t> rates = {1'000'000, 1'000'003, 99'999'999'977, 399'999'999'937,
                                 400'000'000'000};
  std::mt19937_64 random(1);
  for (uint64_t decade = 1'000'000; decade <= 10'000'000'000; decade *= 10) {
    for (int i = 0; i < 4; ++i) rates.push_back(decade + random() % (9 * decade));
  }
  for (const uint64_t bps : rates) {
    const Rate rate = Rate::bits_per_second(bps);
    PacingRig rig(rate, 1);
    rig.start(0);
    uint64_t bytes = 0, frames = 0;
    Time first;
    // A millisecond, and at least ten packets.
    const Time end = Time::zero() + std::max(Duration::ms(1), rate.time_for(kMtu * 12));
    rig.run(end, [&](const SentFrame& frame) {
      if (frames++ == 0) {
        first = frame.scheduled;
        return;
      }
      bytes += frame.bytes.size() + 24;
      const Duration off = frame.scheduled - first - rate.time_for(bytes);
      ASSERT_LE(off.ps(), 1) << bps << ", frame " << frames;
      ASSERT_GE(off.ps(), -1) << bps << ", frame " << frames;
    });
    ASSERT_GE(frames, 10u) << bps;
  }
}

struct FixedRate final : Controller {
  FixedRate(Rate rate, std::vector<std::pair<Time, uint64_t>>& kept)
      : Controller(rate), starts(kept) {}
  void on_sent(Time now, uint64_t bytes) override { starts.emplace_back(now, bytes); }
  std::vector<std::pair<Time, uint64_t>>& starts;
};

TEST(ShardPacing, QueuePairsKeepTheirRatesBesideOneAnother) {
  constexpr uint64_t kLine = 100'000'000'000;
  constexpr size_t kQueuePairs = 9;
  std::mt19937_64 random(3);
  std::vector<uint64_t> weights;
  uint64_t sum = 0;
  for (size_t i = 0; i < kQueuePairs; ++i) {
    weights.push_back(200 + random() % 1000);
    sum += weights.back();
  }
  PacingRig rig(Rate::bits_per_second(kLine), kQueuePairs);
  std::vector<std::vector<std::pair<Time, uint64_t>>> starts(kQueuePairs);
  std::vector<Rate> rates;
  for (uint32_t i = 0; i < kQueuePairs; ++i) {
    rates.push_back(Rate::bits_per_second(kLine / 10 * 9 / sum * weights[i]));
    rig.start(i, std::make_unique<FixedRate>(rates[i], starts[i]));
  }
  const Duration span = Duration::ms(10);
  const Time end = Time::zero() + Duration::ms(12);
  rig.run(end, [](const SentFrame&) {});
  for (size_t i = 0; i < kQueuePairs; ++i) {
    const double bytes = static_cast<double>(rates[i].bps()) / 8 * span.seconds();
    size_t last = 0;
    uint64_t sent = 0;
    const auto& all = starts[i];
    for (size_t first = 0; first < all.size() && all[first].first + span <= end; ++first) {
      while (last < all.size() && all[last].first < all[first].first + span)
        sent += all[last++].second;
      ASSERT_LE(static_cast<double>(sent), bytes * 1.001 + kMtu + 100) << i << " from " << first;
      ASSERT_GE(static_cast<double>(sent), bytes * 0.999 - kMtu + 100) << i << " from " << first;
      sent -= all[first].second;
    }
  }
}

}  // namespace
}  // namespace understudy
