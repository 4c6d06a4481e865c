// Real ranks that wait for what inference did not understand are answered in the end.
#include <gtest/gtest.h>

#include <queue>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/read/load.h"
#include "ctrl/jobs/operations/inferred_operations.h"
#include "tests/rigs/one_real_node.h"

namespace understudy {
namespace {

const char* const kJob = R"([[job]]
name = "ring"
collective = "all_reduce"
ranks = ["gpu", "w*"]
sizes = ["1MiB"]
operations = "inferred"
skew = [ { rank = 2, delay = "3s" } ]
)";

/// What wakes when.
struct Clock final : EndpointHost {
  struct Wake {
    Time at;
    uint64_t cookie = 0;
  };
  bool post(Time, Qp&, const WorkRequest&) override { return true; }
  void wake_at(Time t, Endpoint&, uint64_t cookie) override { wakes.push_back({t, cookie}); }
  Duration arrival_uncertainty() const override { return {}; }
  void tell(Time, const Qp&, NoticeKind, std::span<const uint8_t>) override {}
  std::vector<Wake> wakes;
};

struct Bench {
  explicit Bench(const OneRealNode& network = {.rate = "100Gbit/s"})
      : config(load_config_text(network.text() + kJob, "test.toml").value()),
        setup(build_collective(config, config.jobs[0], false).value()),
        progress(1),
        source(config, config.jobs[0], nullptr, setup->job),
        ranks(setup->job, progress, source.settings(), source) {
    ranks.attach(clock);
    source.attach(ranks, nullptr);
  }

  /// The link on which the real rank receives.
  uint32_t receiving() const {
    uint32_t link = 0;
    while (setup->job.links[link].real_sends) ++link;
    return link;
  }
  void notice(Time now, OnlineNotice::Kind kind) {
    const uint32_t link = receiving();
    source.on_notice(now, {.kind = kind, .link = link, .bytes = setup->job.links[link].slot_bytes});
  }
  /// Everything that is due until then.
  void run_until(Time end) {
    for (size_t i = 0; i < clock.wakes.size(); ++i) {
      const Clock::Wake wake = clock.wakes[i];
      if (wake.at <= end) {
        ranks.on_wake(wake.at, wake.cookie);
      } else {
        later.push_back(wake);
      }
    }
    clock.wakes = std::move(later);
    later.clear();
  }
  bool lost() const { return !source.report().lost.empty(); }

  Config config;
  std::unique_ptr<CollectiveSetup> setup;
  CollectiveProgress progress;
  Clock clock;
  std::vector<Clock::Wake> later;
  InferredOperations source;
  OnlineEmulatedRanks ranks;
};

TEST(InferredPatience, EndsWhenNothingHappensAnyMore) {
  Bench bench;
  const Time start = Time::zero() + Duration::s(1);
  for (int i = 0; i < 4; ++i) bench.notice(start, OnlineNotice::Kind::kCredit);
  // An emulated rank may be 3 s late.
  bench.run_until(start + Duration::ms(3900));
  EXPECT_FALSE(bench.lost());
  // Something happens: it begins anew.
  bench.notice(start + Duration::ms(3900), OnlineNotice::Kind::kSent);
  bench.run_until(start + Duration::ms(7800));
  EXPECT_FALSE(bench.lost());
  bench.run_until(start + Duration::ms(8000));
  ASSERT_TRUE(bench.lost());
  EXPECT_EQ(bench.source.report().lost.substr(0, 22), "rank 0 has waited for ");
}

/// Messages take minutes here, whatever other nodes' links take.
TEST(InferredPatience, CountsTheSlowestLinkBesideUnlimitedOnes) {
  Bench bench({.rate = "100kbit/s", .emulated_rate = "unlimited"});
  const Time start = Time::zero() + Duration::s(1);
  for (int i = 0; i < 4; ++i) bench.notice(start, OnlineNotice::Kind::kCredit);
  bench.run_until(start + Duration::s(100));
  EXPECT_FALSE(bench.lost());
  bench.run_until(start + Duration::s(1000));
  EXPECT_TRUE(bench.lost());
}

TEST(InferredPatience, LastsWhereNobodyWaits) {
  Bench bench;
  const Time start = Time::zero() + Duration::s(1);
  for (int i = 0; i < 4; ++i) bench.notice(start, OnlineNotice::Kind::kCredit);
  for (int i = 0; i < 4; ++i) bench.notice(start, OnlineNotice::Kind::kSent);
  for (int i = 1; i < 100; ++i) bench.run_until(start + Duration::s(i));
  EXPECT_FALSE(bench.lost());
}

}  // namespace
}  // namespace understudy
