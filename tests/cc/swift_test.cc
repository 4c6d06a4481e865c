// Swift by hand: the paper's algorithm 1 and its target delay.
#include "dataplane/cc/swift.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/cc/acks.h"

namespace understudy {
namespace {

// 10 Gbit/s times 8 us are ten packets.
const SenderPath kPath = {gbps(10), Duration::us(8), 1000};

/// Round numbers: no flow scaling, 20 us target, 1 us a switch.
SwiftParameters plain() {
  SwiftParameters p;
  p.flow_scaling_range = Duration();
  p.hop_target = Duration::us(1);
  return p;
}

TEST(Swift, StartsWithOneBdp) {
  Swift law(SwiftParameters{}, kPath);
  EXPECT_DOUBLE_EQ(law.cwnd(), 10);
  EXPECT_EQ(law.rate(), gbps(10));
  EXPECT_EQ(law.window(), 9'001u);  // the tenth packet starts with nine on their way
}

TEST(Swift, TargetDelay) {
  SwiftParameters p;
  p.hop_target = Duration::us(3);
  p.max_cwnd = 10'000;
  const auto target = [&](double cwnd, unsigned switches) {
    p.min_cwnd = p.max_cwnd = cwnd;
    return Swift(p, kPath).target_ps(switches) * 1e-6;
  };
  EXPECT_NEAR(target(0.1, 0), 120, 1e-9);   // all of the range
  EXPECT_NEAR(target(0.01, 0), 120, 1e-9);  // no more below
  EXPECT_NEAR(target(100, 0), 20, 1e-9);
  EXPECT_NEAR(target(1000, 0), 20, 1e-9);  // never less
  EXPECT_NEAR(target(100, 5), 35, 1e-9);
  // alpha = 100 / (1 / sqrt(0.1) - 0.1), beta = -alpha / 10.
  const double alpha = 100 / (1 / std::sqrt(0.1) - 0.1);
  EXPECT_NEAR(target(4, 2), 26 + alpha / 2 - alpha / 10, 1e-9);
}

TEST(Swift, AddsOnePacketPerRoundTripBelowTheTarget) {
  Swift law(plain(), kPath);
  Acks acks;
  law.on_ack(acks.next(9));
  EXPECT_DOUBLE_EQ(law.cwnd(), 10.1);
  AckHeard two = acks.next(9);
  two.newly_acked = 2000;
  law.on_ack(two);
  EXPECT_DOUBLE_EQ(law.cwnd(), 10.1 + 2 / 10.1);
  EXPECT_EQ(law.window(), static_cast<uint64_t>((10.1 + 2 / 10.1 - 1) * 1000) + 1);
}

// rules: A7.1
TEST(Swift, CutsByTheExcessOncePerRoundTrip) {
  Swift law(plain(), kPath);
  Acks acks;
  law.on_ack(acks.next(9, false, Duration::us(25)));
  EXPECT_DOUBLE_EQ(law.cwnd(), 10 * (1 - 0.8 * 5 / 25));
  const double once = law.cwnd();
  for (int i = 0; i < 24; ++i) law.on_ack(acks.next(9, false, Duration::us(25)));
  EXPECT_DOUBLE_EQ(law.cwnd(), once);
  law.on_ack(acks.next(9, false, Duration::us(25)));  // 25 us after the cut
  EXPECT_DOUBLE_EQ(law.cwnd(), once * (1 - 0.8 * 5 / 25));
  // No more than max_mdf however long the delay; a switch on the way allows 1 us more.
  AckHeard late = acks.next(9, false, Duration::us(1000));
  late.at += Duration::us(2000);
  law.on_ack(late);
  EXPECT_DOUBLE_EQ(law.cwnd(), once * (1 - 0.8 * 5 / 25) / 2);
  AckHeard on_time = late;
  on_time.at += Duration::us(2000);
  on_time.rtt = Duration::us(22);
  on_time.switches = 3;
  const double before = law.cwnd();
  law.on_ack(on_time);
  EXPECT_GT(law.cwnd(), before);
}

TEST(Swift, PacesBelowOnePacket) {
  Swift law(plain(), kPath);
  Acks acks;
  for (int i = 0; i < 5; ++i) {
    AckHeard late = acks.next(0, false, Duration::us(500));
    acks.at = late.at + Duration::us(500);
    law.on_ack(late);
  }
  EXPECT_DOUBLE_EQ(law.cwnd(), 10. / 32);
  EXPECT_EQ(law.window(), 1u);  // one packet
  // 10/32 packets of 8000 bit in 500 us.
  EXPECT_EQ(law.rate(), mbps(5));
  // Below one packet the increase is a whole one per packet acknowledged.
  law.on_ack(acks.next(0));
  EXPECT_DOUBLE_EQ(law.cwnd(), 10. / 32 + 1);
  EXPECT_EQ(law.rate(), gbps(10));
}

TEST(Swift, StaysBetweenItsBounds) {
  Swift law(plain(), kPath);
  Acks acks;
  for (int i = 0; i < 100; ++i) {
    AckHeard late = acks.next(0, false, Duration::us(500));
    acks.at = late.at + Duration::us(500);
    law.on_ack(late);
  }
  EXPECT_DOUBLE_EQ(law.cwnd(), 0.001);
  for (int i = 0; i < 1'000'000 && law.cwnd() < 1000; ++i) law.on_ack(acks.next(0));
  EXPECT_DOUBLE_EQ(law.cwnd(), 1000);
}

}  // namespace
}  // namespace understudy
