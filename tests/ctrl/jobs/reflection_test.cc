// A small all-gather over a ring: what emulated ranks send leaves after what it is a copy of.
#include "tests/ctrl/jobs/online_rig.h"

namespace understudy {
namespace {

using Bench = OnlineRig;

TEST(ReflectedGather, EachMessageLeavesAfterItsLike) {
  Bench bench(true, true);
  ASSERT_EQ(bench.setup->job.links.size(), 2u);
  ASSERT_EQ(bench.messages, 6u);
  bench.credit(0);
  bench.credit(1);
  EXPECT_EQ(bench.sent, 0u) << "the real rank's own slice has not come";
  bench.data();
  EXPECT_EQ(bench.sent, 1u);
  bench.data();
  EXPECT_EQ(bench.sent, 2u);
  bench.data();
  EXPECT_EQ(bench.sent, 2u) << "no credit";
  bench.credit(2);
  EXPECT_EQ(bench.sent, 3u);
}

TEST(ReflectedGather, OthersDoNotWait) {
  for (const auto& [gathers, reflects] : {std::pair(false, true), std::pair(true, false)}) {
    Bench bench(gathers, reflects);
    bench.credit(0);
    bench.credit(1);
    EXPECT_EQ(bench.sent, 2u);
  }
}

TEST(ReflectedGather, NobodyWaitsWhereTrackIsLost) {
  Bench bench(true, true);
  bench.credit(0);
  bench.ranks->carry_out(Time::zero(), {.kind = OnlineCommand::Kind::kGiveUp});
  bench.settle();
  EXPECT_EQ(bench.sent, 1u);
}

}  // namespace
}  // namespace understudy
