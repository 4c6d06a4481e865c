// What a guess's plan is not ready for is told to it later, in the order of each link.
#include "dataplane/collective/online_emulated_ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/read/load.h"
#include "tests/rigs/one_real_node.h"

namespace understudy {
namespace {

const char* const kJob = R"([[job]]
name = "pairs"
collective = "all_to_all"
ranks = ["gpu", "w*"]
sizes = ["6MiB"]
entry = "first_credit"
)";

/// Takes what comes of rank 1 when something of rank 2 has come; of all that is acknowledged up to
/// a message, as every plan does.
class LatePlan final : public Plan {
 public:
  struct Told {
    uint32_t rank = 0;
    uint64_t message = 0;
    Time time;
    bool operator==(const Told&) const = default;
  };
  LatePlan(std::vector<Told>& told, bool late) : told_(told), ready_(!late) {}

  std::vector<uint32_t> entered;  ///< ranks

  void start(Time) override {}
  void begin() override {}
  void enter(uint32_t rank, Time) override { entered.push_back(rank); }
  bool on_real_data(uint32_t, uint32_t, uint64_t, Time) override { return true; }
  bool on_acknowledged(uint32_t rank, uint32_t, uint64_t k, Time t) override {
    ready_ |= rank == 2;
    if (!ready_ || k < acknowledged_[rank]) return false;
    acknowledged_[rank] = k + 1;
    told_.push_back({rank, k, t});
    return true;
  }
  bool next(PlanOutput&) override { return false; }
  bool finished() const override { return false; }
  bool next_done(uint32_t&) override { return false; }
  Time completion(uint32_t) const override { return Time::never(); }

 private:
  std::vector<Told>& told_;
  bool ready_;
  std::array<uint64_t, 3> acknowledged_ = {};
};

struct Silent final : EndpointHost, OnlineListener {
  bool post(Time, Qp&, const WorkRequest&) override { return true; }
  void wake_at(Time, Endpoint&, uint64_t) override {}
  Duration arrival_uncertainty() const override { return {}; }
  void tell(Time, const Qp&, NoticeKind, std::span<const uint8_t>) override {}
  bool on_notice(Time, const OnlineNotice&) override { return true; }
};

struct Bench {
  Bench() {
    const auto config = load_config_text(OneRealNode{.emulated = 2}.text() + kJob, "test.toml");
    EXPECT_TRUE(config);
    for (int i = 0; i < 2; ++i) {
      auto made = build_collective(*config, config->jobs[0], false);
      EXPECT_TRUE(made) << (made ? "" : made.error().text);
      setups.push_back(std::move(*made));
    }
    const CollectiveJob& job = setups[0]->job;
    progress = std::make_unique<CollectiveProgress>(1);
    OnlineEmulatedRanks::Settings settings;
    settings.delay.resize(job.ranks());
    settings.wait.resize(job.links.size());
    ranks = std::make_unique<OnlineEmulatedRanks>(job, *progress, std::move(settings), silent);
    ranks->attach(silent);
  }

  /// Message `k` of ours from rank `far` is acknowledged.
  void acknowledge(uint32_t far, uint64_t k, Time now) {
    const CollectiveJob& job = setups[0]->job;
    for (uint32_t l = 0; l < job.links.size(); ++l) {
      if (job.links[l].real_sends || job.links[l].far != far) continue;
      Endpoint& endpoint = ranks->connections().endpoint(l);
      RegionTable regions(1);
      RcCounters counters;
      Qp qp(QpConfig{}, regions, counters, endpoint);
      endpoint.on_completed(now, qp, k, WorkStatus::kSuccess);
      return;
    }
    FAIL() << "no link from rank " << far;
  }
  OnlineOperation& guess(size_t i, std::vector<LatePlan::Told>& told, bool late, Time now) {
    operations[i] = std::make_unique<OnlineOperation>(
        setups[0]->job, std::move(setups[i]->shapes[0]), std::make_unique<LatePlan>(told, late));
    ranks->carry_out(now,
                     {.kind = OnlineCommand::Kind::kInstall, .operation = operations[i].get()});
    return *operations[i];
  }

  Silent silent;
  std::vector<std::unique_ptr<CollectiveSetup>> setups;  ///< the shapes of one for each guess
  std::array<std::unique_ptr<OnlineOperation>, 2> operations;
  std::unique_ptr<CollectiveProgress> progress;
  std::unique_ptr<OnlineEmulatedRanks> ranks;
};

Time at_us(int64_t us) { return Time::zero() + Duration::us(us); }

TEST(OnlineEmulatedRanks, WhatIsPutOffKeepsTheOrderOfItsLink) {
  Bench bench;
  bench.acknowledge(1, 0, at_us(1));
  bench.acknowledge(2, 0, at_us(2));
  bench.acknowledge(1, 1, at_us(3));
  std::vector<LatePlan::Told> told;
  const OnlineOperation& operation = bench.guess(0, told, true, at_us(5));
  const std::vector<LatePlan::Told> expected = {
      {2, 0, at_us(2)}, {1, 0, at_us(5)}, {1, 1, at_us(5)}};
  EXPECT_EQ(told, expected);
  EXPECT_EQ(operation.acknowledged, 3u);
  EXPECT_TRUE(operation.put_off.empty());
}

TEST(OnlineEmulatedRanks, ALaterGuessIsToldWhenThingsCame) {
  Bench bench;
  std::vector<LatePlan::Told> told, again;
  bench.guess(0, told, true, at_us(1));
  bench.acknowledge(1, 0, at_us(2));
  EXPECT_TRUE(told.empty());
  bench.acknowledge(2, 0, at_us(4));
  const std::vector<LatePlan::Told> late = {{2, 0, at_us(4)}, {1, 0, at_us(4)}};
  EXPECT_EQ(told, late);
  bench.guess(1, again, false, at_us(6));
  const std::vector<LatePlan::Told> expected = {{1, 0, at_us(2)}, {2, 0, at_us(4)}};
  EXPECT_EQ(again, expected);
  EXPECT_EQ(bench.operations[1]->acknowledged, 2u);
}

/// Sends between the real node's own GPUs, as a feed tells them: nothing of them comes.
TEST(OnlineEmulatedRanks, WhatDoesNotCrossBeginsAtOnce) {
  Bench bench;
  std::vector<LatePlan::Told> told;
  auto plan = std::make_unique<LatePlan>(told, false);
  const LatePlan& looked_at = *plan;
  auto shape = std::move(bench.setups[0]->shapes[0]);
  for (CollectiveShape::Use& use : shape->uses) use = {};
  OnlineOperation operation(bench.setups[0]->job, std::move(shape), std::move(plan));
  operation.sure = true;
  bench.ranks->carry_out(at_us(1),
                         {.kind = OnlineCommand::Kind::kInstall, .operation = &operation});
  EXPECT_EQ(looked_at.entered, (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(operation.began);
}

}  // namespace
}  // namespace understudy
