// The fuzzer's drive of two queue pairs with fixed seeds, so that every build runs it a little.
#include <gtest/gtest.h>

#include "tests/fuzz/rc_pair_drive.h"

namespace understudy {
namespace {

TEST(RcPairRandom, AnyWorkAndAnyNetwork) {
  size_t steps = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const auto bytes = random_bytes(400, random);
    RcPairDrive drive(bytes);
    ASSERT_EQ(drive.run(), "") << program_text(drive.program());
    steps += drive.program().steps.size();
  }
  EXPECT_GT(steps, 5000u);
}

}  // namespace
}  // namespace understudy
