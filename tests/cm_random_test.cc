// The fuzzer's drive of the communication manager with fixed seeds.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/mad_drive.h"
#include "tests/wire_frames.h"

namespace understudy {
namespace {

TEST(CmRandom, AnyDatagramsAndTime) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const auto bytes = random_bytes(600, random);
    drive_mad(bytes);
    CmDrive(bytes).run();
  }
}

}  // namespace
}  // namespace understudy
