// What an operation that was found out waits for, if it does not go on.
#include "tests/ctrl/jobs/online_rig.h"

namespace understudy {
namespace {

using What = LinkWait::What;

struct Wait {
  What what = What::kData;
  uint64_t message = 0;
  bool operator==(const Wait&) const = default;
};

std::vector<Wait> waits(OnlineRig& rig) {
  const CollectiveProgress& progress = *rig.progress;
  rig.ranks->on_wake(Time::zero(), OnlineEmulatedRanks::kLook);
  EXPECT_TRUE(progress.has_standing);
  EXPECT_EQ(progress.standing.operation, 0u);
  std::vector<Wait> all;
  for (uint32_t i = 0; i < progress.standing.waits; ++i) {
    const LinkWait& wait = progress.standing.first[i];
    EXPECT_EQ(wait.messages, rig.messages);
    EXPECT_EQ(wait.link, wait.what == What::kData ? rig.in : rig.out);
    all.push_back({wait.what, wait.message});
  }
  std::ranges::sort(all, {}, &Wait::what);
  return all;
}

TEST(OnlineStanding, WhatTheRealRankOwesIsNamed) {
  OnlineRig rig(false, false);
  ASSERT_EQ(rig.messages, 6u);
  EXPECT_TRUE(waits(rig).empty()) << "the real rank has not begun";
  rig.credit(0);
  EXPECT_EQ(waits(rig), (std::vector<Wait>{{What::kData, 0}, {What::kCredit, 1}}));
  rig.data();
  for (uint64_t k = 1; k < 6; ++k) rig.credit(k);
  EXPECT_EQ(rig.sent, 6u);
  EXPECT_EQ(waits(rig), (std::vector<Wait>{{What::kData, 1}, {What::kAcknowledgement, 0}}));
  for (int k = 0; k < 5; ++k) rig.data();
  rig.acknowledge();
  rig.acknowledge();
  EXPECT_EQ(waits(rig), (std::vector<Wait>{{What::kAcknowledgement, 2}}));
}

TEST(OnlineStanding, OfAGuessNothingIsNamed) {
  OnlineRig rig(false, false, false);
  rig.credit(0);
  EXPECT_EQ(rig.sent, 1u);
  EXPECT_TRUE(waits(rig).empty());
}

TEST(OnlineStanding, NorWhereTrackIsLost) {
  OnlineRig rig(false, false);
  rig.credit(0);
  rig.ranks->carry_out(Time::zero(), {.kind = OnlineCommand::Kind::kGiveUp});
  EXPECT_TRUE(waits(rig).empty());
}

}  // namespace
}  // namespace understudy
