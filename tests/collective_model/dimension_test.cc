// Collectives on stacks of dimensions. All 594 rows of ASTRA-sim's are tools/experiments/dimension_table's.
#include "collective_model/predict/dimension_time.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

using Kind = DimensionKind;
using By = DimensionAlgorithm;

Dimension dimension(DimensionKind kind, uint32_t size, uint64_t gbps, Duration latency,
                    DimensionAlgorithm algorithm) {
  return {kind, size, Rate::bits_per_second(gbps * 1'000'000'000), latency, algorithm};
}

Duration time(const std::vector<Dimension>& dimensions, Collective collective, uint64_t bytes,
              uint32_t splits = 1, const DimensionCosts& costs = {}) {
  return dimensions_time(dimensions, collective, bytes, splits, costs);
}

// 80 Gbit/s are 100 ps a byte.
TEST(DimensionTime, ClosedFormsOfOneDimension) {
  const Duration latency = Duration::ns(500);
  const auto ring = dimension(Kind::kRing, 4, 80, latency, By::kRing);
  EXPECT_EQ(time({ring}, Collective::kAllReduce, 40'000), (latency + Duration::us(1)) * 6);
  EXPECT_EQ(time({ring}, Collective::kAllGather, 40'000), (latency + Duration::us(1)) * 3);
  EXPECT_EQ(time({ring}, Collective::kAllToAll, 40'000), (latency + Duration::us(1)) * 6);
  const auto direct = dimension(Kind::kFullyConnected, 4, 80, latency, By::kDirect);
  EXPECT_EQ(time({direct}, Collective::kAllReduce, 40'000), (latency + Duration::us(1)) * 2);
  // Through a switch three messages share the sender's link; cut through, two latencies.
  const auto star = dimension(Kind::kSwitch, 4, 80, latency, By::kDirect);
  EXPECT_EQ(time({star}, Collective::kReduceScatter, 40'000), latency * 2 + Duration::us(3));
  const auto halving = dimension(Kind::kSwitch, 4, 80, latency, By::kHalvingDoubling);
  EXPECT_EQ(time({halving}, Collective::kReduceScatter, 40'000),
            latency * 4 + Duration::us(2) + Duration::us(1));
  EXPECT_EQ(time({halving}, Collective::kAllReduce, 40'000),
            time({halving}, Collective::kReduceScatter, 40'000) * 2);
}

TEST(DimensionTime, CostsAreCharged) {
  const auto ring = dimension(Kind::kRing, 4, 80, Duration::ns(500), By::kRing);
  const Duration free = time({ring}, Collective::kReduceScatter, 40'000);
  DimensionCosts costs;
  costs.endpoint = Duration::ns(10);
  EXPECT_EQ(time({ring}, Collective::kReduceScatter, 40'000, 1, costs), free + costs.endpoint * 4);
  costs = {};
  costs.memory = Rate::bits_per_second(800'000'000'000);  // 10 ps a byte
  EXPECT_EQ(time({ring}, Collective::kReduceScatter, 40'000, 1, costs),
            free + Duration::ns(100) * 3 * 3);
  EXPECT_EQ(time({ring}, Collective::kAllGather, 40'000, 1, costs), free);
  costs = {};
  const auto star = dimension(Kind::kSwitch, 4, 80, Duration::ns(500), By::kRing);
  const Duration through = time({star}, Collective::kReduceScatter, 40'000);
  costs.store_and_forward = true;
  EXPECT_EQ(time({star}, Collective::kReduceScatter, 40'000, 1, costs),
            through + Duration::us(1) * 3);
  costs = {};
  costs.rounding = Duration::ns(1);
  EXPECT_EQ(time({ring}, Collective::kReduceScatter, 4'036, 1, costs),
            Duration::ns(500 + 100) * 3);  // 1,009 bytes: 100.9 ns
}

TEST(DimensionTime, ADimensionOfOneIsNotThere) {
  const auto inner = dimension(Kind::kRing, 4, 80, Duration::ns(500), By::kRing);
  const auto one = dimension(Kind::kSwitch, 1, 1, Duration::ms(1), By::kHalvingDoubling);
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather,
                                      Collective::kReduceScatter, Collective::kAllToAll}) {
    EXPECT_EQ(time({inner, one}, collective, 40'000, 4), time({inner}, collective, 40'000, 4));
    EXPECT_EQ(time({one}, collective, 40'000, 4), Duration());
  }
}

// The chunks' gathers wait behind all scatters of the inner dimension, as those came first.
TEST(DimensionTime, ChunksFollowEachOther) {
  const auto inner = dimension(Kind::kRing, 2, 8, Duration(), By::kRing);     // 1 ns a byte
  const auto outer = dimension(Kind::kSwitch, 2, 80, Duration(), By::kRing);  // 100 ps a byte
  const Duration scatter = Duration::us(2), all = Duration::ns(200), gather = scatter;
  // A chunk of 4,000 bytes: 2,000 inside, then 2,000 in halves outside, back.
  EXPECT_EQ(time({inner, outer}, Collective::kAllReduce, 4'000), scatter + all + gather);
  EXPECT_EQ(time({inner, outer}, Collective::kAllReduce, 12'000, 3), scatter * 3 + gather * 3);
  // With the slow dimension outside its chunks follow each other without a gap.
  const Duration fast = Duration::ns(200);
  EXPECT_EQ(time({outer, inner}, Collective::kAllReduce, 12'000, 3),
            fast + Duration::us(2) * 3 + fast);
}

// 1 ns a byte: a chunk's time on a ring of two is what a rank sends.
TEST(DimensionTime, WhatSplitsDoNotDivideIsASmallerChunk) {
  const auto pair = dimension(Kind::kRing, 2, 8, Duration(), By::kRing);
  EXPECT_EQ(time({pair}, Collective::kReduceScatter, 1'000, 3), Duration::ns(3 * 166));
  EXPECT_EQ(time({pair}, Collective::kReduceScatter, 1'004, 3), Duration::ns(3 * 167 + 1));
  EXPECT_EQ(time({pair}, Collective::kAllReduce, 1'004, 3), Duration::ns(2 * (3 * 167 + 1)));
  EXPECT_EQ(time({pair}, Collective::kAllToAll, 1'004, 3), Duration::ns(3 * 167 + 1));
  EXPECT_EQ(time({pair}, Collective::kAllGather, 1'004, 3), Duration::ns(3 * 167 + 1));
  // Fewer bytes than chunks: the smaller one alone.
  EXPECT_EQ(time({pair}, Collective::kReduceScatter, 6, 64), Duration::ns(3));
  // It costs its messages' latencies like any other.
  const auto far = dimension(Kind::kRing, 2, 8, Duration::us(1), By::kRing);
  EXPECT_EQ(time({far}, Collective::kReduceScatter, 128, 64), Duration::ns(1'001) * 64);
  EXPECT_EQ(time({far}, Collective::kReduceScatter, 130, 64), Duration::ns(1'001) * 65);
  // It waits behind the others, and follows them from dimension to dimension.
  const auto fast = dimension(Kind::kSwitch, 2, 80, Duration(), By::kRing);  // 100 ps a byte
  EXPECT_EQ(time({fast, pair}, Collective::kReduceScatter, 10'400, 2),
            Duration::ns(260 + 1'300 + 1'300));
  EXPECT_EQ(time({fast, pair}, Collective::kReduceScatter, 12'002, 5),
            Duration::ns(120 + 5 * 600));  // the last one: two bytes, one, none
  EXPECT_EQ(time({fast, pair}, Collective::kReduceScatter, 12'004, 5),
            Duration::ns(120 + 5 * 600 + 1));
}

TEST(DimensionTime, WhatRanksDoNotDivideIsRoundedDown) {
  const auto ring = dimension(Kind::kRing, 3, 8, Duration(), By::kRing);
  EXPECT_EQ(time({ring}, Collective::kReduceScatter, 1'000), Duration::ns(2 * 333));
  EXPECT_EQ(time({ring}, Collective::kAllToAll, 1'001), Duration::ns(3 * 333));
  EXPECT_EQ(time({ring}, Collective::kReduceScatter, 2), Duration());
  // Halving-doubling: 7 bytes are sent as 3 and 1, and the way back begins with twice a half: none.
  const auto star = dimension(Kind::kSwitch, 4, 8, Duration(), By::kHalvingDoubling);
  EXPECT_EQ(time({star}, Collective::kReduceScatter, 7), Duration::ns(3 + 1));
  EXPECT_EQ(time({star}, Collective::kAllReduce, 7), Duration::ns(3 + 1));
  EXPECT_EQ(time({star}, Collective::kAllReduce, 8), Duration::ns(4 + 2 + 2 + 4));
}

// Beyond 64 bits of picoseconds, 106 days, times are not wrapped.
TEST(DimensionTime, NothingOverflows) {
  const auto ring = dimension(Kind::kRing, 4, 80, Duration(), By::kRing);
  DimensionCosts costs;
  costs.memory = Rate::bits_per_second(1'000);  // 8 ms a byte; three times as long for three parts
  const uint64_t part = 100'000'000;
  EXPECT_EQ(time({ring}, Collective::kReduceScatter, 4 * part, 1, costs),
            Duration::ms(8) * part * 9 + Duration::ps(100) * part * 3);
  EXPECT_EQ(time({ring}, Collective::kReduceScatter, 8 * part, 1, costs), Duration::max());
  EXPECT_EQ(time({ring}, Collective::kReduceScatter, uint64_t{1} << 40, 3, costs), Duration::max());
  costs.memory = Rate::bits_per_second(1);
  EXPECT_EQ(time({ring}, Collective::kAllReduce, uint64_t{1} << 40, 1000, costs), Duration::max());
}

TEST(DimensionTime, WhatCannotRunIsNamed) {
  EXPECT_STREQ(why_not(dimension(Kind::kSwitch, 6, 80, {}, By::kDirect)), "");
  EXPECT_STREQ(why_not(dimension(Kind::kRing, 6, 80, {}, By::kRing)), "");
  EXPECT_STRNE(why_not(dimension(Kind::kRing, 6, 80, {}, By::kDirect)), "");
  EXPECT_STRNE(why_not(dimension(Kind::kSwitch, 6, 80, {}, By::kHalvingDoubling)), "");
  EXPECT_STREQ(why_not(dimension(Kind::kSwitch, 8, 80, {}, By::kHalvingDoubling)), "");
}

}  // namespace
}  // namespace understudy
