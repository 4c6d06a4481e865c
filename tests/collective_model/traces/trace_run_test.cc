// Traces on communicators that somebody else carries out: here in given times. What the list of rules
// alone decides is what replay() says of it.
#include "collective_model/traces/trace_run.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "collective_model/workload/closed_operations.h"
#include "tests/collective_model/traces/trace_builder.h"

namespace understudy {
namespace {

using enum TraceCollective;
using Graph = std::shared_ptr<const TraceGraph>;

/// A job on communicators whose operations take given times.
class Closed {
 public:
  using Times = std::function<Duration(const TraceCommunicator&, const TraceShape&)>;
  Closed(TraceJob job, TraceRules rules, const Times& times) : job_(std::move(job)) {
    settings_.rules = rules;
    settings_.recorded = true;
    auto orders = order_job(job_, rules);
    EXPECT_TRUE(orders) << orders.error().text;
    auto found =
        TraceCommunicators::find(job_, *orders, rules, TraceComputing(rules, settings_.system));
    EXPECT_TRUE(found) << found.error().text;
    orders_ = *std::move(orders);
    found_ = *std::move(found);
    std::vector<TraceRun::Carried> carried;
    for (const TraceCommunicator& one : found_->all()) {
      auto all = std::make_shared<std::vector<ClosedTime>>();
      for (const TraceShape& shape : one.shapes) all->push_back({times(one, shape), Duration()});
      const auto members = static_cast<uint32_t>(one.ranks.size());
      carried.push_back({&closed_, closed_.add(members, one.messages, all)});
    }
    run_.emplace(job_, orders_, settings_, *found_, std::move(carried));
    closed_.listen(*run_);
    run_->begin(Time::zero());
    run_->advance_all();
  }

  const TraceRun& run() const { return *run_; }
  std::vector<int64_t> finish() const {
    std::vector<int64_t> all;
    for (uint32_t rank = 0; rank < run_->executor().ranks(); ++rank) {
      all.push_back(ns_of(run_->executor().finish(rank)));
    }
    return all;
  }

 private:
  const TraceJob job_;
  TraceRunSettings settings_;
  TraceOrders orders_;
  std::optional<TraceCommunicators> found_;
  ClosedOperations closed_;
  std::optional<TraceRun> run_;
};

TraceJob alike(size_t ranks, const Graph& graph) {
  TraceJob job;
  job.ranks.assign(ranks, graph);
  return job;
}

Result<TraceCommunicators> found_in(const TraceJob& job) {
  constexpr TraceRules kRules = TraceRules::kStreams;
  const auto orders = order_job(job, kRules);
  EXPECT_TRUE(orders) << orders.error().text;
  return TraceCommunicators::find(job, *orders, kRules, TraceComputing(kRules, TraceSystem()));
}

Duration fixed(const TraceCommunicator&, const TraceShape&) { return Duration::us(10); }

/// Drawn graphs of computations on both units and of collectives, the same on all ranks.
TEST(TraceRun, WithReplaysTimesItEndsWhenReplayDoes) {
  std::mt19937_64 random(11);
  const auto draw = [&random](uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(random);
  };
  constexpr uint32_t kRanks = 4;
  for (int i = 0; i < 100; ++i) {
    TraceBuilder trace;
    const uint64_t nodes = draw(1, 40);
    for (uint64_t id = 0; id < nodes; ++id) {
      TraceBuilder::Ids after;
      for (uint64_t k = draw(0, 3); id > 0 && k > 0; --k) after.push_back(draw(0, id - 1));
      if (draw(0, 2) > 0) {
        trace.compute(id, draw(0, 40), after, draw(0, 3) == 0);
      } else {
        constexpr TraceCollective kAll[] = {kAllReduce, kAllGather, kReduceScatter, kAllToAll};
        trace.collective(id, kAll[draw(0, 3)], draw(1, 4) * 1'000'000, after);
      }
    }
    for (const TraceRules rules : {TraceRules::kFeeder1, TraceRules::kFeeder3}) {
      ReplaySettings settings = settings_of(kRanks, TraceCongestion::kUnaware);
      settings.rules = rules;
      const auto replayed = replay(alike(kRanks, trace.graph()), settings);
      if (!replayed && rules == TraceRules::kFeeder3) continue;  // stands still by these rules
      const Closed closed(
          alike(kRanks, trace.graph()), rules,
          [&](const TraceCommunicator&, const TraceShape& shape) {
            const auto one = TraceBuilder().collective(0, *shape.collective, shape.bytes).graph();
            return Duration::ns(finish_ns(replay(alike(kRanks, one), settings))[0]);
          });
      ASSERT_TRUE(closed.run().finished()) << closed.run().why_unfinished();
      EXPECT_EQ(closed.finish(), finish_ns(replayed)) << i;
    }
  }
}

/// Collectives of one group follow each other; those of two groups and computations do not wait.
TEST(TraceRun, StreamsOrderOneCommunicatorAndNothingElse) {
  TraceBuilder trace;
  trace.collective(0, kAllReduce, 100)
      .collective(1, kAllReduce, 100)
      .collective(2, kAllReduce, 100);
  trace.last().group = "1";
  trace.compute(3, 12).compute(4, 12);
  TraceJob job = alike(2, trace.graph());
  job.groups[1] = {0, 1};
  const Closed streams(job, TraceRules::kStreams, fixed);
  EXPECT_EQ(streams.finish(), (std::vector<int64_t>{24'000, 24'000}));
  EXPECT_EQ(ns_of(streams.run().executor().times(0)[1].begin), 10'000);
  EXPECT_EQ(ns_of(streams.run().executor().times(0)[2].begin), 0);
  EXPECT_EQ(streams.run().computed(1), Duration::us(24));
  // By ASTRA-sim's rules a rank has one operation at a time.
  const Closed feeder(job, TraceRules::kFeeder3, fixed);
  EXPECT_EQ(feeder.finish(), (std::vector<int64_t>{30'000, 30'000}));
  const TraceOperationTotals& totals = streams.run().totals().at(kAllReduce);
  EXPECT_EQ(totals.count, 3U);
  EXPECT_EQ(totals.all, Duration::us(30));
  EXPECT_EQ(totals.waiting, Duration());
}

/// A send waits for its receive by NCCL's rules, and leaves at once by ASTRA-sim's.
TEST(TraceRun, SendsWaitForReceivesOfStreamsOnly) {
  TraceJob job;
  job.ranks = {TraceBuilder().send(0, 1, 64, 5).compute(1, 3, {0}).graph(),
               TraceBuilder().compute(0, 50).receive(1, 0, 64, 5, {0}).graph()};
  EXPECT_EQ(Closed(job, TraceRules::kStreams, fixed).finish(),
            (std::vector<int64_t>{63'000, 60'000}));
  EXPECT_EQ(Closed(job, TraceRules::kFeeder3, fixed).finish(),
            (std::vector<int64_t>{13'000, 50'000}));
}

/// Tags decide which message a receive gets where messages leave at once, in whatever order.
TEST(TraceRun, TagsOfFeedersMeetInAnyOrder) {
  TraceJob job;
  job.ranks = {
      TraceBuilder().send(0, 1, 64, 5).send(1, 1, 64, 6, {0}).graph(),
      TraceBuilder().receive(0, 0, 64, 6).compute(1, 7, {0}).receive(2, 0, 64, 5, {1}).graph()};
  EXPECT_EQ(Closed(job, TraceRules::kFeeder3, fixed).finish(),
            (std::vector<int64_t>{20'000, 27'000}));
  const auto found = found_in(job);
  ASSERT_FALSE(found);
  EXPECT_EQ(
      found.error().text,
      "messages from rank 0 to rank 1: NCCL takes operations of a communicator in the order of "
      "their ids: rank 0, node 0 (message of 64 bytes) and rank 1, node 0 (message of 64 bytes) "
      "would meet, tags 5 and 6");
}

TEST(TraceRun, WhatWaitsForEverIsNamed) {
  // Each rank waits in a collective of one group for the other one, which is in that of the second.
  TraceBuilder first, second;
  first.collective(0, kAllReduce, 8);
  first.last().group = "1";
  first.collective(1, kAllReduce, 8, {0});
  first.last().group = "2";
  second.collective(0, kAllReduce, 8);
  second.last().group = "2";
  second.collective(1, kAllReduce, 8, {0});
  second.last().group = "1";
  TraceJob job;
  job.ranks = {first.graph(), second.graph()};
  job.groups = {{1, {0, 1}}, {2, {0, 1}}};
  const Closed closed(job, TraceRules::kStreams, fixed);
  EXPECT_FALSE(closed.run().finished());
  EXPECT_EQ(closed.run().why_unfinished(),
            "rank 0, node 0: never ends: it waits for rank 1 in group 1");
}

TEST(TraceRun, WhatIsWrongWithCommunicatorsIsNamed) {
  const auto error_of = [](const TraceJob& job) {
    const auto found = found_in(job);
    return found ? std::string() : found.error().text;
  };
  TraceBuilder trace;
  trace.collective(4, kAllReduce, 8);
  trace.last().group = "7";
  TraceJob job = alike(2, trace.graph());
  EXPECT_EQ(error_of(job), "rank 0, node 4: its group 7 is in no file of groups");
  job.groups[7] = {0, 3};
  EXPECT_EQ(error_of(job), "rank 0, node 4: group 7 has rank 3, and there are 2");
  job.groups[7] = {0};
  EXPECT_EQ(error_of(job), "rank 1, node 4: group 7 has not rank 1");
  job.groups[7] = {0, 0};
  EXPECT_EQ(error_of(job), "rank 0, node 4: group 7 has rank 0 twice");
  job.groups[7] = {0, 1};
  EXPECT_EQ(error_of(job), "");
  job.ranks[1] = TraceBuilder().compute(0, 1).graph();
  EXPECT_EQ(error_of(job), "group 7: rank 0 has 1 collectives, rank 1 0");
  TraceBuilder part;
  part.collective(0, kAllReduce, 8);
  part.last().dimensions = {true, false};
  EXPECT_EQ(error_of(alike(2, part.graph())),
            "rank 0, node 0: involved_dim names 2 dimensions of ranks, and none are given "
            "(dimensions = [2, 4])");
}

/// Rank d0 + 2 d1: ranks 0, 2, 4 differ in the second dimension only.
TEST(TraceRun, DimensionsAreGroups) {
  TraceBuilder trace;
  trace.collective(0, kAllReduce, 8);
  trace.last().dimensions = {false, true};
  trace.collective(1, kAllReduce, 8);
  trace.last().dimensions = {true, true};
  TraceJob job = alike(6, trace.graph());
  job.dimensions = {2, 3};
  const auto found = found_in(job);
  ASSERT_TRUE(found) << found.error().text;
  ASSERT_EQ(found->all().size(), 3U);
  EXPECT_EQ(found->all()[0].name, "dimension 1 from rank 0");
  EXPECT_EQ(found->all()[0].ranks, (std::vector<uint32_t>{0, 2, 4}));
  EXPECT_EQ(found->all()[1].name, "all ranks");
  EXPECT_EQ(found->all()[2].ranks, (std::vector<uint32_t>{1, 3, 5}));
}

/// Ids that are no order of what waits for what: streams follow the dependencies first.
TEST(TraceRun, StreamsFollowDependenciesBeforeIds) {
  TraceBuilder trace;
  trace.compute(0, 5, {2}).compute(1, 7).compute(2, 11, {1});
  const Closed closed(alike(1, trace.graph()), TraceRules::kStreams, fixed);
  EXPECT_EQ(closed.finish(), (std::vector<int64_t>{23'000}));
}

/// Real traces have control dependencies on nodes that are not there, and on the node itself.
TEST(TraceRun, StreamsTakeTheControlDependenciesThatCanBeMet) {
  TraceNode compute;
  compute.kind = TraceNodeKind::kCompute;
  compute.duration_us = 4;
  TraceBuilder trace;
  trace.compute(0, 3).add(1, compute, {}, {1, 77, 0});
  EXPECT_EQ(Closed(alike(1, trace.graph()), TraceRules::kStreams, fixed).finish(),
            (std::vector<int64_t>{7'000}));
  EXPECT_FALSE(order_job(alike(1, trace.graph()), TraceRules::kFeeder3));
  trace.compute(2, 1, {2});
  const auto itself = order_job(alike(1, trace.graph()), TraceRules::kStreams);
  ASSERT_FALSE(itself);
  EXPECT_EQ(itself.error().text, "rank 0: nodes wait for each other: node 2 waits for itself");
}

/// No bytes, or nobody else.
TEST(TraceRun, NothingToSayTakesNoTime) {
  TraceJob job = alike(2, TraceBuilder().collective(0, kAllReduce, 0).compute(1, 5, {0}).graph());
  EXPECT_EQ(Closed(job, TraceRules::kStreams, fixed).finish(),
            (std::vector<int64_t>{5'000, 5'000}));
  EXPECT_EQ(Closed(alike(1, TraceBuilder().collective(0, kAllReduce, 64).graph()),
                   TraceRules::kStreams, fixed)
                .finish(),
            (std::vector<int64_t>{0}));
}

}  // namespace
}  // namespace understudy
