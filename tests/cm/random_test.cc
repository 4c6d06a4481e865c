// The fuzzer's drive of MADs with fixed seeds.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/mad_drive.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

// rules: A9.1 A9.2
TEST(CmRandom, WhatIsUnderstoodIsWrittenAlike) {
  std::mt19937_64 random(1);
  size_t understood = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = random_bytes(kMadBytes, random);
    const uint8_t header[] = {1, 7, 2, 3};
    std::copy(std::begin(header), std::end(header), bytes.begin());
    bytes[16] = 0;
    bytes[17] = static_cast<uint8_t>(0x10 + random() % 11);
    understood += parse_mad(bytes) ? 1 : 0;
    drive_mad(bytes);
  }
  EXPECT_GT(understood, 10'000u);
}

}  // namespace
}  // namespace understudy
