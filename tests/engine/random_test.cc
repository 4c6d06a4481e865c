// The fuzzer's drive of a shard with fixed seeds, so that every build runs it a little.
#include <gtest/gtest.h>

#include "tests/fuzz/shard_drive.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

TEST(EngineRandom, AnyFramesCommandsAndTime) {
  uint64_t received = 0, sent = 0, paused = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    std::mt19937_64 random(seed);
    const auto input = random_bytes(1000, random);
    ShardDrive drive(input);
    drive.run();
    received += drive.counters().rx_roce;
    sent += drive.counters().tx_roce;
    paused += drive.pauses_sent();
  }
  EXPECT_GT(received, 3000u);
  EXPECT_GT(sent, 3000u);
  EXPECT_GT(paused, 100u);
}

}  // namespace
}  // namespace understudy
