// Quantiles within 1/16 over the whole range of durations.
#include "dataplane/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace understudy {
namespace {

TEST(Histogram, EmptyAndSingle) {
  Histogram h;
  EXPECT_EQ(h.quantile(990), Duration());
  EXPECT_EQ(h.count(), 0u);
  h.add(Duration::ps(12345));
  EXPECT_EQ(h.quantile(0), Duration::ps(12345));
  EXPECT_EQ(h.quantile(1000), Duration::ps(12345));
}

TEST(Histogram, NegativeCountsAsZeroAndHugeFits) {
  Histogram h;
  h.add(Duration::ps(-5));
  EXPECT_EQ(h.quantile(500), Duration());
  h.add(Duration::max());
  EXPECT_EQ(h.quantile(1000), Duration::max());
  EXPECT_EQ(h.max(), Duration::max());
  EXPECT_EQ(h.count(), 2u);
}

TEST(Histogram, QuantilesAreWithinASixteenth) {
  std::mt19937_64 random(11);
  for (int spread : {4, 10, 20, 40, 62}) {
    Histogram h;
    std::vector<int64_t> all;
    for (int i = 0; i < 5000; ++i) {
      const auto v = static_cast<int64_t>(random() % (uint64_t{1} << spread));
      all.push_back(v);
      h.add(Duration::ps(v));
    }
    std::sort(all.begin(), all.end());
    for (unsigned permille : {1u, 10u, 500u, 900u, 990u, 999u, 1000u}) {
      const size_t rank = (all.size() * permille + 999) / 1000;
      const int64_t exact = all[rank - 1];
      const int64_t got = h.quantile(permille).ps();
      EXPECT_GE(got, exact) << spread << " " << permille;
      EXPECT_LE(got, exact + exact / 16) << spread << " " << permille;
    }
    EXPECT_EQ(h.max().ps(), all.back());
  }
}

}  // namespace
}  // namespace understudy
