// An invariant that does not hold ends the program, with its place and text.
#include "dataplane/base/assert.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

TEST(Assert, AnInvariantThatHoldsChangesNothing) {
  int evaluated = 0;
  ASSERT_INVARIANT(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

TEST(AssertDeathTest, AnInvariantThatDoesNotHoldEndsTheProgram) {
  const int ranks = 3;
  EXPECT_DEATH(ASSERT_INVARIANT(ranks == 4),
               "assert_test\\.cc:[0-9]+: invariant does not hold: ranks == 4");
}

TEST(AssertDeathTest, ThePacketPathIsCheckedInDebugBuilds) {
  int evaluated = 0;
#ifdef UNDERSTUDY_DEBUG
  EXPECT_DEATH(DEBUG_ASSERT_INVARIANT(++evaluated == 2), "evaluated == 2");
#else
  DEBUG_ASSERT_INVARIANT(++evaluated == 2);
#endif
  EXPECT_EQ(evaluated, 0);
}

}  // namespace
}  // namespace understudy
