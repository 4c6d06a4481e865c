// Percentiles of slowdowns by size.
#include "ctrl/report/slowdown.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

std::vector<FlowSlowdown> flows(uint64_t bytes, size_t count) {
  std::vector<FlowSlowdown> out;  // slowdowns of 1, 2, ... in no order
  for (size_t i = 0; i < count; ++i) {
    out.push_back({bytes, static_cast<double>(1 + (i * 7919) % count)});
  }
  return out;
}

TEST(Slowdown, PercentilesByNearestRank) {
  const SlowdownBucket all = slowdown_of_all(flows(5, 1001));
  EXPECT_EQ(all.flows, 1001u);
  EXPECT_EQ(all.at[0], 501);   // of 500.5
  EXPECT_EQ(all.at[1], 951);   // of 950.95
  EXPECT_EQ(all.at[2], 991);   // of 990.99
  EXPECT_EQ(all.at[3], 1000);  // of 999.999
  EXPECT_EQ(all.largest, 1001);
  for (size_t i = 0; i < kPercentiles.size(); ++i) EXPECT_FALSE(all.is_largest(i));
  const SlowdownBucket even = slowdown_of_all(flows(5, 1000));
  EXPECT_EQ(even.at[0], 500);
  EXPECT_EQ(even.at[3], 999);
}

TEST(Slowdown, TooFewFlowsAreSaid) {
  const SlowdownBucket all = slowdown_of_all(flows(5, 999));
  EXPECT_FALSE(all.is_largest(2));
  EXPECT_TRUE(all.is_largest(3));
  EXPECT_NE(slowdown_table("x", flows(5, 999)).find("*"), std::string::npos);
  EXPECT_EQ(slowdown_table("x", flows(5, 1000)).find("*"), std::string::npos);
  EXPECT_TRUE(slowdown_of_all(flows(5, 1)).is_largest(0));
  EXPECT_EQ(slowdown_of_all({}).flows, 0u);
}

TEST(Slowdown, BordersBelongToTheSmallerSize) {
  std::vector<FlowSlowdown> some;
  for (const uint64_t bytes :
       {1ul, 100ul, 101ul, 300ul, 301ul, 1000ul, 1001ul, 30'000'000ul, 30'000'001ul}) {
    some.push_back({bytes, static_cast<double>(bytes)});
  }
  const auto buckets = slowdown_buckets(some);
  ASSERT_EQ(buckets.size(), 6u);
  const uint64_t above[] = {0, 100, 300, 1000, 10'000'000, 30'000'000};
  const uint64_t most[] = {100, 300, 1000, 3000, 30'000'000, 100'000'000};
  const uint64_t count[] = {2, 2, 2, 1, 1, 1};
  for (size_t i = 0; i < buckets.size(); ++i) {
    EXPECT_EQ(buckets[i].above, above[i]);
    EXPECT_EQ(buckets[i].most, most[i]);
    EXPECT_EQ(buckets[i].flows, count[i]);
  }
  EXPECT_EQ(bucket_text(buckets[0]), "<= 100 B");
  EXPECT_EQ(bucket_text(buckets[3]), "<= 3 KB");
  EXPECT_EQ(bucket_text(buckets[5]), "<= 100 MB");
}

}  // namespace
}  // namespace understudy
