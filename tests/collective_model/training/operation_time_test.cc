// What operations take by formula.
#include "collective_model/training/operation_time.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

using enum TrainingTransfer;

TEST(OperationTime, IsThatOfARing) {
  const OperationTimes times{.rate = Rate::bits_per_second(8'000'000'000),
                             .latency = Duration::us(10)};
  // 1 byte a ns; 8 ranks carry 7/8 of a million bytes, an all-reduce twice that.
  EXPECT_EQ(times.of(kAllReduce, 1e6, 8), Duration::us(10 + 1750));
  EXPECT_EQ(times.of(kAllGather, 1e6, 8), Duration::us(10 + 875));
  EXPECT_EQ(times.of(kReduceScatter, 1e6, 8), Duration::us(10 + 875));
  EXPECT_EQ(times.of(kSend, 1e6, 2), Duration::us(10 + 1000));
  EXPECT_EQ(times.of(kAllReduce, 1e6, 1), Duration());
}

/// In a switch an all-reduce's bytes pass once.
TEST(OperationTime, FactorsAreInsteadOfARings) {
  const OperationTimes times{.rate = Rate::bits_per_second(8'000'000'000),
                             .all_reduce = 1,
                             .all_gather = 0.5,
                             .reduce_scatter = 0.25};
  EXPECT_EQ(times.of(kAllReduce, 1e6, 8), Duration::us(1000));
  EXPECT_EQ(times.of(kAllGather, 1e6, 8), Duration::us(500));
  EXPECT_EQ(times.of(kReduceScatter, 1e6, 8), Duration::us(250));
  EXPECT_EQ(times.of(kSend, 1e6, 2), Duration::us(1000));
}

TEST(OperationTime, AnUnlimitedRateLeavesTheLatency) {
  const OperationTimes times{.rate = Rate::unlimited(), .latency = Duration::us(3)};
  EXPECT_EQ(times.of(kAllReduce, 1e9, 8), Duration::us(3));
}

TEST(OperationTime, TheNormTakesTheLongestLatency) {
  GivenOperations given;
  given.pipeline.latency = Duration::us(20);
  given.data.latency = Duration::us(5);
  EXPECT_EQ(given.norm(), Duration::us(20));
}

}  // namespace
}  // namespace understudy
