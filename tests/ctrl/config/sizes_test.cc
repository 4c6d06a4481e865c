// Distributions of flow sizes: what is read, what is refused, and what is drawn from them.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/sizes/size_distribution.h"

namespace understudy {
namespace {

std::string error_of(const std::string& text) {
  const auto points = parse_sizes(text);
  if (points) return "no error";
  return std::to_string(points.error().line) + ": " + points.error().found + ": " +
         points.error().allowed;
}

TEST(Sizes, SharesArePartsOfOneOrOfAHundred) {
  const auto one = parse_sizes("bytes,probability\n# a comment\n0,0\n\n1000,0.5\r\n3KB,1\n");
  ASSERT_TRUE(one);
  ASSERT_EQ(one->size(), 3u);
  const auto hundred = parse_sizes("0 0\n1000 50\n3000B\t100");
  ASSERT_TRUE(hundred);
  ASSERT_EQ(hundred->size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*one)[i].bytes, (*hundred)[i].bytes);
    EXPECT_EQ((*one)[i].share, (*hundred)[i].share);
  }
}

TEST(Sizes, StraightBetweenPoints) {
  const SizeDistribution sizes{"", {{0, 0}, {1000, 0.5}, {3000, 1}}};
  EXPECT_DOUBLE_EQ(sizes.mean(), 0.5 * 500 + 0.5 * 2000);
  EXPECT_EQ(sizes.at(0), 1u);  // no flow is empty
  EXPECT_EQ(sizes.at(0.25), 500u);
  EXPECT_EQ(sizes.at(0.5), 1000u);
  EXPECT_EQ(sizes.at(0.75), 2000u);
  EXPECT_EQ(sizes.at(0x1.fffffffffffffp-1), 3000u);
}

TEST(Sizes, StepsAndGaps) {
  // A quarter has 100 bytes, a quarter 200, none is in between, the rest lies above.
  const SizeDistribution sizes{"", {{100, 0.25}, {200, 0.25}, {200, 0.5}, {400, 1}}};
  EXPECT_DOUBLE_EQ(sizes.mean(), 0.25 * 100 + 0.25 * 200 + 0.5 * 300);
  EXPECT_EQ(sizes.at(0.1), 100u);
  EXPECT_EQ(sizes.at(0.25), 200u);
  EXPECT_EQ(sizes.at(0.49), 200u);
  EXPECT_EQ(sizes.at(0.75), 300u);
}

TEST(Sizes, WhatIsRefused) {
  EXPECT_EQ(error_of(""), "0: nothing: expected one point a line: bytes, share");
  EXPECT_EQ(error_of("0 0\n5 0.5 7\n"),
            "2: \"5 0.5 7\": expected two cells: bytes, and the share of flows that are no larger");
  EXPECT_EQ(error_of("0 0\n5 x\n"), "2: \"x\": expected a share, as in 0.25, or in per cent");
  EXPECT_EQ(error_of("0 -1\n"), "1: \"-1\": expected a share, as in 0.25, or in per cent");
  EXPECT_EQ(error_of("0 nan\n"), "1: \"nan\": expected a share, as in 0.25, or in per cent");
  EXPECT_EQ(error_of("9 0\n5 1\n"), "2: \"5\": sizes do not fall from line to line");
  EXPECT_EQ(error_of("1 0.5\n5 0.4\n"), "2: \"0.4\": shares do not fall from line to line");
  EXPECT_EQ(error_of("1 0\n5 0.9\n"),
            "0: nothing: the last share must be 1, or 100 where shares are per cent");
  EXPECT_EQ(error_of("0 0\n0 1\n"), "0: nothing: the last size must be at least 1 byte");
  EXPECT_NE(error_of("0 0\n5XB 1\n").find("unknown unit"), std::string::npos);
}

TEST(Sizes, KnownOnesAreDistributions) {
  EXPECT_EQ(known_sizes().size(), 4u);
  for (const KnownSizes& known : known_sizes()) {
    SCOPED_TRACE(known.name);
    EXPECT_FALSE(known.source.empty());
    ASSERT_GE(known.points.size(), 2u);
    EXPECT_EQ(known.points.back().share, 1);
    for (size_t i = 1; i < known.points.size(); ++i) {
      EXPECT_GT(known.points[i].bytes, known.points[i - 1].bytes);
      EXPECT_GT(known.points[i].share, known.points[i - 1].share);
    }
  }
}

TEST(Sizes, PublishedMeans) {
  const auto mean = [](std::string_view name) {
    for (const KnownSizes& known : known_sizes()) {
      if (known.name != name) continue;
      return SizeDistribution{"", {known.points.begin(), known.points.end()}}.mean();
    }
    return 0.0;
  };
  // By hand: the sum of each piece's share times its middle.
  EXPECT_NEAR(mean("web-search"),
              0.15 * 5e3 + 0.05 * 15e3 + 0.1 * 25e3 + 0.1 * 40e3 + 0.13 * 65e3 + 0.07 * 140e3 +
                  0.1 * 600e3 + 0.1 * 1.5e6 + 0.1 * 3.5e6 + 0.07 * 7.5e6 + 0.03 * 20e6,
              1e-3);
  EXPECT_NEAR(mean("fb-hadoop"), 120'420.75, 1e-6);
}

}  // namespace
}  // namespace understudy
