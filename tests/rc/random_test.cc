// The fuzzer's drive of one queue pair with fixed seeds, so that every build runs it a little.
#include <gtest/gtest.h>

#include "tests/fuzz/rc_drive.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

TEST(RcRandom, AnyPacketsWorkAndTime) {
  uint64_t seen[static_cast<size_t>(RcEvent::kCount)] = {};
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    std::mt19937_64 random(seed);
    RcDrive drive;
    drive.run(random_bytes(400, random));
    for (size_t e = 0; e < std::size(seen); ++e) seen[e] += drive.counted(static_cast<RcEvent>(e));
  }
  for (size_t e = 0; e < std::size(seen); ++e) {
    EXPECT_GT(seen[e], 0u) << rc_event_name(static_cast<RcEvent>(e)) << " was never reached";
  }
}

}  // namespace
}  // namespace understudy
