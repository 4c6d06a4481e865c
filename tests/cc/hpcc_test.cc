// HPCC by hand: the paper's algorithm 1 on made-up telemetry.
#include "dataplane/cc/hpcc.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/cc/acks.h"

namespace understudy {
namespace {

// 10 Gbit/s send 1250 bytes a microsecond, 12,500 in a base round trip.
const SenderPath kPath = {gbps(10), Duration::us(10), 1000};

class HpccTest : public testing::Test {
 protected:
  /// A switch that has been busy with `share` of its rate for `passed`, then holds `queue` bytes.
  void hear(Duration passed, double share, uint64_t queue, uint64_t in_flight = 0) {
    at += passed;
    hop.rate = gbps(10);
    hop.at = at;
    hop.tx_bytes += static_cast<uint64_t>(share * passed.microseconds() * 1250);
    hop.queue_bytes = queue;
    std::vector<IntHop> hops = before;
    hops.push_back(hop);
    AckHeard ack = acks.next(in_flight);
    ack.hops = hops;
    hearer->on_ack(ack);
  }

  Hpcc law{HpccParameters{}, kPath};
  Hpcc* hearer = &law;
  Acks acks;
  Time at = at_us(5);
  IntHop hop;
  std::vector<IntHop> before;  ///< hops in front of it
};

TEST_F(HpccTest, StartsAtLineRateWithOneBdp) {
  EXPECT_EQ(law.rate(), gbps(10));
  EXPECT_EQ(law.window(), 12'500u);
  hear(Duration::us(1), 1, 100'000);
  EXPECT_EQ(law.rate(), gbps(10));  // noted only
  EXPECT_TRUE(law.rate_changes_gap());
}

TEST_F(HpccTest, QueueAndRateMakeTheUtilisation) {
  hear(Duration::us(1), 1, 12'500);
  // A whole round trip later: sends at its rate, one BDP queued at both ends: U = 2.
  hear(Duration::us(10), 1, 20'000);
  EXPECT_DOUBLE_EQ(law.utilisation(), 2.0);
  EXPECT_EQ(law.rate().bps(), static_cast<uint64_t>(10e9 / (2 / 0.95) + 50e6));
  EXPECT_EQ(law.window(), 12'500 * law.rate().bps() / 10'000'000'000);
  // Half a round trip weighs half: half busy and the smaller of the two queues, which is none.
  const double reference = static_cast<double>(law.rate().bps());
  hear(Duration::us(5), 0.5, 0);
  EXPECT_DOUBLE_EQ(law.utilisation(), 1.25);
  EXPECT_EQ(law.rate().bps(), static_cast<uint64_t>(reference / (1.25 / 0.95) + 50e6));
}

// rules: A7.1
TEST_F(HpccTest, ProbesBelowTheTargetThenMultiplies) {
  hear(Duration::us(1), 1, 25'000);
  hear(Duration::us(10), 1, 25'000);  // U = 3
  uint64_t expected = law.rate().bps();
  for (int i = 0; i < 5; ++i) {
    hear(Duration::us(10), 0.76, 0);  // U = 0.76, 0.8 of the target
    expected += 50'000'000;
    ASSERT_EQ(law.rate().bps(), expected) << i;
  }
  hear(Duration::us(10), 0.76, 0);  // maxStage additive increases have passed
  EXPECT_NEAR(static_cast<double>(law.rate().bps()), static_cast<double>(expected) / 0.8 + 50e6, 2);
}

TEST_F(HpccTest, BetweenWindowsTheReferenceStays) {
  hear(Duration::us(1), 1, 12'500, 9);
  for (int i = 0; i < 10; ++i) hear(Duration::us(10), 1, 12'500, 9);
  // Ten acknowledgements from one reference rate, not ten cuts in a row.
  EXPECT_EQ(law.rate().bps(), static_cast<uint64_t>(10e9 / (2 / 0.95) + 50e6));
  const double reference = static_cast<double>(law.rate().bps());
  hear(Duration::us(10), 1, 12'500, 9);  // the tenth passed the window: a new reference
  EXPECT_EQ(law.rate().bps(), static_cast<uint64_t>(reference / (2 / 0.95) + 50e6));
}

TEST_F(HpccTest, WithoutFastReactionOnlyOncePerWindow) {
  HpccParameters p;
  p.fast_react = false;
  Hpcc slow(p, kPath);
  hearer = &slow;
  hear(Duration::us(1), 1, 12'500, 2);
  hear(Duration::us(10), 1, 12'500, 2);
  hear(Duration::us(10), 1, 12'500, 2);
  EXPECT_EQ(slow.rate(), gbps(10));
  hear(Duration::us(10), 1, 12'500, 2);
  EXPECT_LT(slow.rate(), gbps(5));
}

TEST_F(HpccTest, TheFullestHopCounts) {
  IntHop idle;
  idle.rate = gbps(100);
  idle.at = at_us(4);
  before = {idle};
  hear(Duration::us(1), 1, 12'500);
  before[0].at += Duration::us(2);  // its own time between the packets
  before[0].tx_bytes += 25'000;     // all of 100 Gbit/s: U = 1, less than the other's 2
  hear(Duration::us(10), 1, 12'500);
  EXPECT_DOUBLE_EQ(law.utilisation(), 2.0);
}

TEST_F(HpccTest, AnotherPathIsNotedFirst) {
  hear(Duration::us(1), 1, 12'500);
  hear(Duration::us(10), 1, 12'500);
  const Rate rate = law.rate();
  IntHop other;
  other.rate = gbps(10);
  other.at = at;
  before = {other};
  hear(Duration::us(10), 1, 50'000);
  EXPECT_EQ(law.rate(), rate);
  before[0].at += Duration::us(10);
  hear(Duration::us(10), 1, 50'000);
  EXPECT_LT(law.rate(), rate);
}

TEST_F(HpccTest, NoTelemetryNoChange) {
  for (int i = 0; i < 10; ++i) law.on_ack(acks.next(0, true));
  EXPECT_EQ(law.rate(), gbps(10));
}

TEST_F(HpccTest, AnIdlePathGivesTheLineRateBack) {
  hear(Duration::us(1), 1, 125'000);
  hear(Duration::us(10), 1, 125'000);
  ASSERT_LT(law.rate(), gbps(1));
  for (int i = 0; i < 7; ++i) hear(Duration::us(10), 0, 0);
  EXPECT_EQ(law.rate(), gbps(10));
}

}  // namespace
}  // namespace understudy
