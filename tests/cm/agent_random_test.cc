// The fuzzer's drive of the communication manager with fixed seeds, so that every build runs it a
// little.
#include <gtest/gtest.h>

#include "tests/fuzz/cm_agent_drive.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

// rules: A9.4 A9.5 A9.6 A9.7 A9.9 A9.10 A9.11
TEST(CmAgentRandom, AnyDatagramsWishesAndTime) {
  CmCounters sum;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    std::mt19937_64 random(seed);
    CmAgentDrive drive;
    drive.run(random_bytes(600, random));
    const CmCounters& c = drive.counters();
    sum.malformed += c.malformed;
    sum.unexpected += c.unexpected;
    sum.duplicates += c.duplicates;
    sum.repeated += c.repeated;
    sum.timeouts += c.timeouts;
    sum.rejected += c.rejected;
    sum.stale += c.stale;
    sum.established += c.established;
  }
  for (const uint64_t reached : {sum.malformed, sum.unexpected, sum.duplicates, sum.repeated,
                                 sum.timeouts, sum.rejected, sum.stale, sum.established}) {
    EXPECT_GT(reached, 100u);
  }
}

}  // namespace
}  // namespace understudy
