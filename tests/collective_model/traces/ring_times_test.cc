// When ranks of a ring end: the closed form of ranks that enter together, and of drawn entries the
// recurrence step by step, which the library leaves as soon as ranks keep pace.
#include "collective_model/traces/ring_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace understudy {
namespace {

struct Ends {
  std::vector<int64_t> at, free;
};

/// Every step of every chunk, without a shortcut.
Ends step_by_step(const RingSteps& steps, const std::vector<int64_t>& way, Ends ends) {
  const size_t ranks = ends.at.size();
  for (uint64_t chunk = 0; chunk < steps.chunks; ++chunk) {
    for (int64_t& at : ends.at) at += steps.endpoint;
    for (uint64_t step = 0; step < steps.steps; ++step) {
      std::vector<int64_t> arrives(ranks);
      for (size_t rank = 0; rank < ranks; ++rank) {
        int64_t leaves = ends.at[rank];
        if (!ends.free.empty()) {
          leaves = std::max(leaves, ends.free[rank]);
          ends.free[rank] = leaves + steps.serialized;
        }
        arrives[(rank + 1) % ranks] = leaves + way[rank % way.size()];
      }
      for (size_t rank = 0; rank < ranks; ++rank) {
        const int64_t reduced = step < steps.reducing ? steps.reduce : 0;
        ends.at[rank] = std::max(arrives[rank], ends.at[rank]) + reduced + steps.endpoint;
      }
    }
  }
  return ends;
}

TEST(RingTimes, RanksThatEnterTogetherTakeTheClosedForm) {
  // An all-reduce of 1 MiB on 4 ranks: 65,536 bytes take 500 + 1,220 ns, and 3 * 40 ns to reduce.
  const RingSteps steps{4, 6, 3, 65'536, 120, 10, 1220};
  const int64_t expected = 4 * (6 * (10 + 1720) + 3 * 120 + 10);
  EXPECT_EQ(expected, 43'000);
  for (const bool links : {false, true}) {
    std::vector<int64_t> at(4, 7000), free(links ? 4 : 0);
    ring_times(steps, std::vector<int64_t>{1720}, at, free);
    EXPECT_EQ(at, std::vector<int64_t>(4, 7000 + expected)) << links;
  }
}

TEST(RingTimes, DrawnEntriesEndAsStepByStep) {
  std::mt19937_64 random(20);
  const auto draw = [&random](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    const auto ranks = static_cast<size_t>(draw(2, 9));
    RingSteps steps;
    steps.chunks = static_cast<uint64_t>(draw(1, 4));
    steps.steps = static_cast<uint64_t>(draw(1, 3 * static_cast<int64_t>(ranks)));
    steps.reducing = static_cast<uint64_t>(draw(0, static_cast<int64_t>(steps.steps)));
    steps.reduce = draw(0, 50);
    steps.endpoint = draw(1, 30);
    steps.serialized = draw(0, 400);
    const bool links = draw(0, 1) == 1;
    std::vector<int64_t> way;
    const size_t ways = draw(0, 3) > 0 ? 1 : ranks;
    while (way.size() < ways) {
      way.push_back(steps.serialized + draw(0, 300));
    }
    const int64_t skew = draw(0, 1) == 1 ? draw(0, 5) : draw(0, 20'000);
    Ends enters;
    for (size_t rank = 0; rank < ranks; ++rank) {
      enters.at.push_back(draw(0, skew));
      if (links) enters.free.push_back(draw(0, 1000));
    }
    const Ends expected = step_by_step(steps, way, enters);
    Ends ends = enters;
    ring_times(steps, way, ends.at, ends.free);
    ASSERT_EQ(ends.at, expected.at) << "case " << i;
    ASSERT_EQ(ends.free, expected.free) << "case " << i;
  }
}

/// 523,776 steps of 1,024 ranks would take seconds one by one.
TEST(RingTimes, ManyStepsOfManyRanksTakeNoTime) {
  constexpr size_t kRanks = 1024;
  const RingSteps steps{4, kRanks * (kRanks - 1) / 2, 0, 256, 0, 10, 5};
  std::vector<int64_t> at(kRanks), free(kRanks);
  at[17] = 1000;
  ring_times(steps, std::vector<int64_t>{505}, at, free);
  const int64_t alone = 4 * (static_cast<int64_t>(steps.steps) * 515 + 10);
  EXPECT_EQ(*std::max_element(at.begin(), at.end()), 1000 + alone);
}

}  // namespace
}  // namespace understudy
