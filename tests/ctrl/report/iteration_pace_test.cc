// How long an iteration takes beside a real node, from one entry of its first operation to the next.
#include <gtest/gtest.h>

#include "ctrl/report/iteration_table.h"

namespace understudy {
namespace {

/// Of iterations of two operations that begin at these times, the first ones to warm up.
JobReport job(std::vector<int64_t> begins_us, size_t warmup) {
  JobReport report;
  report.per_iteration = 2;
  for (size_t i = 0; i < begins_us.size(); ++i) {
    for (int64_t operation = 0; operation < 2; ++operation) {
      CollectiveReport c;
      c.warmup = i < warmup;
      c.entry = Time::zero() + Duration::us(begins_us[i] + 3 * operation);
      report.collectives.push_back(c);
    }
  }
  return report;
}

TEST(IterationPace, IsTheMeanOfTheTimedIterations) {
  EXPECT_EQ(iteration_pace(job({10, 110, 160, 220}, 1)), Duration::us(55));
  EXPECT_EQ(iteration_pace(job({10, 110, 160}, 0)), Duration::us(75));
}

TEST(IterationPace, CountsWarmUpsWhereNothingElseDoes) {
  EXPECT_EQ(iteration_pace(job({10, 110}, 1)), Duration::us(100));
  EXPECT_EQ(iteration_pace(job({10, 110, 130}, 3)), Duration::us(60));
}

TEST(IterationPace, NeedsASecondIterationOfSeveralOperations) {
  EXPECT_FALSE(iteration_pace(job({10}, 0)));
  EXPECT_FALSE(iteration_pace(job({}, 0)));
  JobReport single = job({10, 110}, 0);
  single.per_iteration = 1;
  EXPECT_FALSE(iteration_pace(single));
  JobReport unknown = job({10, 110}, 0);
  for (CollectiveReport& c : unknown.collectives) c.entry = Time::never();
  EXPECT_FALSE(iteration_pace(unknown));
}

/// The last iteration was not begun, or not ended.
TEST(IterationPace, CountsBegunIterations) {
  JobReport report = job({10, 110, 160}, 0);
  report.collectives.pop_back();
  EXPECT_EQ(iteration_pace(report), Duration::us(75));
}

}  // namespace
}  // namespace understudy
