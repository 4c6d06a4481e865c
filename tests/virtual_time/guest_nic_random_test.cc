// The fuzzer's drive of a guest's network device with fixed seeds, so that every build runs it a
// little.
#include <gtest/gtest.h>

#include "tests/fuzz/guest_nic_drive.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

TEST(GuestNicRandom, AnyMessagesAndMemory) {
  GuestNicDrive::Reached sum;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    GuestNicDrive drive;
    drive.run(random_bytes(600, random));
    const GuestNicDrive::Reached reached = drive.reached();
    sum.taken += reached.taken;
    sum.delivered += reached.delivered;
    sum.broken += reached.broken;
    sum.refused += reached.refused;
  }
  for (const uint64_t count : {sum.taken, sum.delivered, sum.broken, sum.refused}) {
    EXPECT_GT(count, 100u);
  }
}

}  // namespace
}  // namespace understudy
