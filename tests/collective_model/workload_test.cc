// Workloads: chains begin as iteration.h says, whatever waits for whatever begins with the last of
// it, and cycles are found.
#include "collective_model/workload/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <random>
#include <tuple>

#include "collective_model/workload/chain.h"
#include "collective_model/workload/executor.h"

namespace understudy {
namespace {

using Kind = WorkloadNode::Kind;

Time at(int64_t us) { return Time::zero() + Duration::us(us); }

/// Carries operations out: each takes its group's time on every rank, by itself.
class Ranks final : public WorkloadListener {
 public:
  Ranks(const Workload& workload, std::vector<Duration> took)
      : workload_(workload), executor_(workload), took_(std::move(took)) {
    for (uint32_t group = 0; group < workload.groups(); ++group) {
      parts_.push_back(std::make_unique<Part>(*this, group));
      for (uint32_t rank = 0; rank < workload.ranks(group); ++rank) {
        executor_.listen(group, rank, *parts_.back());
      }
    }
  }

  /// All groups begin at time zero. False if something never begins.
  bool run() {
    for (uint32_t group = 0; group < workload_.groups(); ++group) {
      for (uint32_t rank = 0; rank < workload_.ranks(group); ++rank) {
        executor_.begin(group, rank, Time::zero());
      }
    }
    size_t entries = 0, expected = 0;
    for (; !due_.empty(); ++entries) {
      const auto [end, group, operation, rank] = due_.top();
      due_.pop();
      executor_.done(group, operation, rank, end);
    }
    for (uint32_t group = 0; group < workload_.groups(); ++group) {
      expected += workload_.operations(group).size() * workload_.ranks(group);
    }
    return entries == expected;
  }
  Time entry(uint32_t group, uint32_t operation, uint32_t rank) const {
    return entries_.at({group, operation, rank});
  }
  Time begun(uint32_t group, uint32_t rank) const { return executor_.begun(group, rank); }

  void may_enter(uint32_t, uint32_t, Time) override {}

 private:
  struct Part final : WorkloadListener {
    Part(Ranks& ranks, uint32_t number) : all(ranks), group(number) {}
    void may_enter(uint32_t operation, uint32_t rank, Time time) override {
      all.entries_[{group, operation, rank}] = time;
      all.due_.push({time + all.took_[group], group, operation, rank});
    }
    Ranks& all;
    uint32_t group;
  };
  using Due = std::tuple<Time, uint32_t, uint32_t, uint32_t>;

  const Workload& workload_;
  WorkloadExecutor executor_;
  std::vector<Duration> took_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Time> entries_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

uint32_t plain_chain(Workload& workload, uint32_t ranks, uint32_t operations, Time start = {}) {
  Chain chain{.ranks = ranks, .operations = operations, .start = start, .alike = true};
  chain.step = [](uint32_t, uint32_t) { return EntryStep(); };
  return add_chain(workload, chain);
}

TEST(WorkloadExecutor, ChainsBeginAsTheRulesOfIterationsSay) {
  std::mt19937 random(5);
  const auto draw = [&](int64_t most) {
    return Duration::us(std::uniform_int_distribution<int64_t>(0, most)(random));
  };
  for (int round = 0; round < 200; ++round) {
    constexpr uint32_t kRanks = 3, kOperations = 8;
    const bool overlap = round % 2 == 0, alike = round % 3 == 0, computes = round % 7 != 0;
    const uint32_t each = 1 + static_cast<uint32_t>(round) % 4;
    const Duration period = round % 5 == 0 ? Duration::us(100) : Duration();
    std::vector<std::vector<EntryStep>> steps(kOperations, std::vector<EntryStep>(kRanks));
    for (uint32_t o = 0; o < kOperations; ++o) {
      for (EntryStep& step : steps[o]) {
        step.waits = !computes || !overlap || o % each == 0;
        step.period = period;
        step.delay = draw(30);
        if (!computes) continue;
        step.compute = draw(50);
        if (o % each == 0 && o > 0) step.beside = draw(20);
      }
      if (alike) steps[o].assign(kRanks, steps[o].front());
    }
    Workload workload;
    Chain chain{.ranks = kRanks,
                .operations = kOperations,
                .start = at(round),
                .computes = computes,
                .alike = alike};
    chain.step = [&](uint32_t operation, uint32_t rank) { return steps[operation][rank]; };
    const uint32_t group = add_chain(workload, chain);
    EXPECT_TRUE(workload.cycle().empty());
    const Duration took = draw(60);
    Ranks ranks(workload, {took});
    EXPECT_TRUE(ranks.run());
    for (uint32_t r = 0; r < kRanks; ++r) {
      EntryClock clock;
      Time done = chain.start;
      EXPECT_EQ(ranks.begun(group, r), chain.start);
      for (uint32_t o = 0; o < kOperations; ++o) {
        const Time entry = clock.enter(steps[o][r], done);
        EXPECT_EQ(ranks.entry(group, o, r), entry) << "round " << round << " operation " << o;
        done = entry + took;
      }
    }
  }
}

TEST(WorkloadExecutor, AGroupWaitsForThoseAtTheSamePlaceOrForAll) {
  Workload workload;
  const uint32_t former = plain_chain(workload, 3, 2), latter = plain_chain(workload, 4, 1);
  // Two of the former are on node 8. Ranks of the latter: there, on node 9, and twice elsewhere.
  workload.order(workload.last(former), workload.first(latter),
                 RankPlaces::own_place_or_all({8, 9, 8}, {9, 8, 5, 7}));
  WorkloadExecutor executor(workload);
  struct Entries final : WorkloadListener {
    void may_enter(uint32_t operation, uint32_t rank, Time time) override {
      all.emplace_back(operation, rank, time);
    }
    std::vector<std::tuple<uint32_t, uint32_t, Time>> all;
  } first, then;
  for (uint32_t r = 0; r < 3; ++r) executor.listen(former, r, first);
  for (uint32_t r = 0; r < 4; ++r) executor.listen(latter, r, then);
  for (uint32_t r = 0; r < 4; ++r) executor.begin(latter, r, Time::zero());
  for (uint32_t r = 0; r < 3; ++r) executor.begin(former, r, Time::zero());
  EXPECT_EQ(first.all.size(), 3u);
  executor.done(former, 0, 0, at(1));
  executor.done(former, 1, 0, at(9));
  EXPECT_TRUE(then.all.empty());
  executor.done(former, 0, 1, at(2));
  executor.done(former, 1, 1, at(3));
  using Entry = std::tuple<uint32_t, uint32_t, Time>;
  EXPECT_EQ(then.all, (std::vector<Entry>{{0, 0, at(3)}}));
  executor.done(former, 0, 2, at(4));
  executor.done(former, 1, 2, at(5));
  // Node 8 is done with the later one of its two ranks, and so are all.
  EXPECT_EQ(then.all,
            (std::vector<Entry>{{0, 0, at(3)}, {0, 1, at(9)}, {0, 2, at(9)}, {0, 3, at(9)}}));
  EXPECT_EQ(executor.begun(latter, 2), at(9));
}

TEST(WorkloadExecutor, AnyGraphTakesItsLongestWay) {
  std::mt19937 random(11);
  const auto draw = [&](uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(0, most)(random);
  };
  for (int round = 0; round < 50; ++round) {
    Workload workload;
    const uint32_t group = workload.add_group(1);
    const Duration took = Duration::us(7);
    std::vector<Duration> length;
    std::vector<Time> ends;  // by node, worked out along the edges
    for (uint32_t n = 0; n < 40; ++n) {
      WorkloadNode node{.kind = n == 0        ? Kind::kStart
                                : draw(1) > 0 ? Kind::kCompute
                                              : Kind::kOperation,
                        .group = group};
      node.times = {Duration::us(draw(20))};
      const uint32_t number = workload.add(node);
      Time begins;
      for (uint32_t i = 0; n > 0 && i <= draw(3); ++i) {
        const uint32_t from = draw(n - 1);
        workload.order(from, number);
        begins = std::max(begins, ends[from]);
      }
      const bool operation = node.kind == Kind::kOperation;
      ends.push_back(n == 0 ? Time()
                            : begins + node.times.front() + (operation ? took : Duration()));
    }
    Ranks ranks(workload, {took});
    EXPECT_TRUE(ranks.run());
    for (uint32_t o = 0; o < workload.operations(group).size(); ++o) {
      EXPECT_EQ(ranks.entry(group, o, 0) + took, ends[workload.operations(group)[o]]);
    }
  }
}

TEST(Workload, FindsACycle) {
  Workload workload;
  const uint32_t a = plain_chain(workload, 2, 2), b = plain_chain(workload, 2, 1),
                 c = plain_chain(workload, 2, 1);
  const auto after = [&](uint32_t latter, uint32_t former) {
    workload.order(workload.last(former), workload.first(latter),
                   RankPlaces::own_place_or_all({0, 1}, {0, 1}));
  };
  after(b, a);
  after(c, b);
  EXPECT_TRUE(workload.cycle().empty());
  after(a, b);
  const std::vector<uint32_t> cycle = workload.cycle();
  ASSERT_EQ(cycle.size(), 5u);  // c's nodes only stand behind it
  for (size_t i = 0; i < cycle.size(); ++i) {
    const auto& edges = workload.edges(cycle[i]);
    EXPECT_TRUE(std::ranges::any_of(edges, [&](const Workload::Edge& edge) {
      return edge.to == cycle[(i + 1) % cycle.size()];
    }));
  }
}

}  // namespace
}  // namespace understudy
