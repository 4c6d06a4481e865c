// Any frames, and segments that nearly fit: tests/fuzz/virtual_host_drive.h says what must hold.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/virtual_host_drive.h"

namespace understudy {
namespace {

TEST(VirtualHostRandom, KeepsItsPromises) {
  uint64_t heard = 0, resets = 0, retransmissions = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<uint8_t> bytes(100 + random() % 500);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    VirtualHostDrive drive(bytes);
    drive.run();
    heard += drive.heard();
    resets += drive.counters().resets_sent;
    retransmissions += drive.counters().retransmissions;
  }
  // It does get that far.
  EXPECT_GT(heard, 10'000u);
  EXPECT_GT(resets, 1000u);
  EXPECT_GT(retransmissions, 1000u);
}

}  // namespace
}  // namespace understudy
