// TIMELY by hand: each step of the paper's algorithm 1, in the form of HPCC's simulator.
#include "dataplane/cc/timely.h"

#include <gtest/gtest.h>

#include "tests/cc/acks.h"

namespace understudy {
namespace {

const SenderPath kPath = {gbps(10), Duration::us(8), 1000};

class TimelyTest : public testing::Test {
 protected:
  /// One window of one packet: every acknowledgement is an update.
  Rate round_trip(Duration rtt) {
    law.on_ack(acks.next(0, false, rtt));
    return law.rate();
  }
  Timely law{TimelyParameters{}, kPath};
  Acks acks;
};

TEST_F(TimelyTest, TheFirstRoundTripIsOnlyNoted) {
  EXPECT_EQ(law.rate(), gbps(10));
  EXPECT_EQ(round_trip(Duration::us(900)), gbps(10));
}

TEST_F(TimelyTest, AboveThighByHowMuch) {
  round_trip(Duration::us(600));
  // 1 - 0.8 * (1 - 500 / 1000)
  EXPECT_EQ(round_trip(Duration::us(1000)), mbps(6'000));
  // Even while it falls: 1 - 0.8 * (1 - 500 / 625)
  EXPECT_EQ(round_trip(Duration::us(625)), mbps(5'040));
}

// rules: A7.1
TEST_F(TimelyTest, GradientBetweenTheThresholds) {
  round_trip(Duration::us(100));
  // Difference 0.875 * 8 us, gradient 7 / 20: 1 - 0.8 * 0.35
  EXPECT_EQ(round_trip(Duration::us(108)), mbps(7'200));
  // Difference 0.125 * 7 us, gradient 0.04375: 1 - 0.035
  EXPECT_EQ(round_trip(Duration::us(108)), mbps(6'948));
  // 0.125 * 0.875 - 0.875 * 8 us: falling, additive increase
  EXPECT_EQ(round_trip(Duration::us(100)), mbps(6'998));
  // A gradient above 1 / beta leaves the least rate.
  EXPECT_EQ(round_trip(Duration::us(400)), mbps(100));
}

TEST_F(TimelyTest, HyperIncreaseAfterFiveInARow) {
  round_trip(Duration::us(100));
  round_trip(Duration::us(400));  // down to 100 Mbit/s
  uint64_t expected = 100;
  for (int i = 0; i < 8; ++i) {
    expected += i < 5 ? 50 : 100;
    EXPECT_EQ(round_trip(Duration::us(40)), mbps(expected)) << i;
  }
  round_trip(Duration::us(2000));  // 1 - 0.8 * 0.75 of 650
  EXPECT_NEAR(static_cast<double>(law.rate().bps()), 260e6, 1);
  EXPECT_NEAR(static_cast<double>(round_trip(Duration::us(40)).bps()), 310e6, 1);
}

TEST_F(TimelyTest, OncePerWindowOfData) {
  law.on_ack(acks.next(3, false, Duration::us(600)));
  for (int i = 0; i < 3; ++i) law.on_ack(acks.next(3, false, Duration::us(1000)));
  EXPECT_EQ(law.rate(), gbps(10));  // all sent before the first acknowledgement
  law.on_ack(acks.next(3, false, Duration::us(1000)));
  EXPECT_EQ(law.rate(), mbps(6'000));
}

}  // namespace
}  // namespace understudy
