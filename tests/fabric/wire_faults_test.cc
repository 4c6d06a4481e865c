// What keeps packets from a wire, and which of those on it are lost.
#include "dataplane/fabric/wire_faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace understudy {
namespace {

constexpr Time kTail = Time::from_ps(520'000), kOther = Time::from_ps(540'000);

std::optional<PacketLoss> lost(WireFaults& faults, Time tail, bool to_nic = false) {
  return faults.lost(tail, to_nic, 1, 0, 0);
}

TEST(WireFaults, AnOutageHoldsAllAndCutsOneOff) {
  WireFaults faults;
  EXPECT_FALSE(faults.holds(true));
  faults.change({.down = true}, kTail);
  EXPECT_TRUE(faults.holds(false));
  EXPECT_TRUE(faults.is_closed());
  EXPECT_EQ(lost(faults, kOther), std::nullopt);
  EXPECT_EQ(lost(faults, kTail), PacketLoss::kOutage);
  faults.change({.down = false}, kOther);
  EXPECT_FALSE(faults.holds(false));
  EXPECT_EQ(lost(faults, kOther), std::nullopt);
}

TEST(WireFaults, TheEndOfASecondOutageForgetsNobody) {
  WireFaults faults;
  faults.change({.down = true}, kTail);
  faults.change({.down = false}, Time::never());
  faults.change({.down = true}, Time::never());
  EXPECT_EQ(lost(faults, kTail), PacketLoss::kOutage);
}

TEST(WireFaults, AStandingNicSendsNothingAndLosesWhatComes) {
  WireFaults faults;
  faults.change({.paused = true}, kTail);
  EXPECT_TRUE(faults.holds(true));
  EXPECT_FALSE(faults.holds(false));
  EXPECT_EQ(lost(faults, kTail, false), std::nullopt);
  EXPECT_EQ(lost(faults, kTail, true), PacketLoss::kOutage);
}

TEST(WireFaults, LossesAreAFunctionOfThePacketsNumber) {
  constexpr int kPackets = 1000;
  const auto losses = [](uint64_t first) {
    WireFaults faults;
    faults.set_loss(0.1);
    faults.count_from(first);
    std::vector<bool> all;
    for (int i = 0; i < kPackets; ++i) all.push_back(lost(faults, kTail) == PacketLoss::kLink);
    return all;
  };
  const std::vector<bool> from_zero = losses(0), from_ten = losses(10);
  EXPECT_TRUE(std::equal(from_ten.begin(), from_ten.end() - 10, from_zero.begin() + 10));
  const auto lost_ones = std::count(from_zero.begin(), from_zero.end(), true);
  EXPECT_GT(lost_ones, 70);
  EXPECT_LT(lost_ones, 130);
}

TEST(WireFaults, ALinkThatLosesAllIsClosedButTakesPackets) {
  WireFaults faults;
  faults.change({.loss = 1.0}, Time::never());
  EXPECT_TRUE(faults.is_closed());
  EXPECT_FALSE(faults.holds(true));
  EXPECT_EQ(lost(faults, kTail), PacketLoss::kLink);
}

}  // namespace
}  // namespace understudy
