// The recurrence with all ranks emulated against the closed form of a uniform ring.
#include "collective_model/ring_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace understudy {
namespace {

constexpr uint64_t kMiB = 1 << 20;

RingPlanConfig uniform(uint32_t ranks, uint64_t bytes, uint64_t gbps, Duration latency) {
  RingPlanConfig config{RingSchedule(ranks, {0, bytes}, 4)};
  config.hops.assign(ranks, {Rate::bits_per_second(gbps * 1'000'000'000), latency});
  config.credits_preposted = true;
  return config;
}

Duration recurrence(const RingPlanConfig& config, uint32_t rank = 0) {
  return modelled_time(*RingPlan::make(config), rank);
}

Duration closed_form(const RingPlanConfig& config) {
  return closed_form_time(config.schedule, config.hops[0], config.wire, config.step_cost);
}

/// Relative difference of a from b.
double off(Duration a, Duration b) { return std::abs(a.seconds() / b.seconds() - 1); }

TEST(RingTime, UniformRingTakesTheClosedForm) {
  double worst = 0;
  for (uint32_t n = 2; n <= 64; ++n) {
    for (const uint64_t gbps : {10u, 25u, 100u, 200u, 400u}) {
      for (const Duration latency : {Duration::ns(500), Duration::us(2), Duration::us(20)}) {
        for (const uint64_t chunk : {kMiB / 16, kMiB / 4, 2 * kMiB, 5 * kMiB}) {
          for (const uint32_t mtu : {1024u, 4096u}) {
            RingPlanConfig config = uniform(n, n * chunk, gbps, latency);
            config.step_cost = Duration::us(1);
            config.wire.mtu = mtu;
            const double difference = off(recurrence(config, n / 2), closed_form(config));
            ASSERT_LT(difference, 0.001) << n << " ranks, " << gbps << " Gbit/s, latency "
                                         << latency.microseconds() << " us, chunk " << chunk;
            worst = std::max(worst, difference);
          }
        }
      }
    }
  }
  RecordProperty("worst_percent", std::to_string(worst * 100));
}

TEST(RingTime, AModelWithoutSlicesIsFarOff) {
  // One loop of 16 ranks with 2 MiB chunks: what a step-by-step model gets wrong is that the second
  // slice is on its way while the first one is reduced and forwarded.
  const RingPlanConfig config = uniform(16, 32 * kMiB, 100, Duration::us(50));
  const Duration chunk = Duration::ps(8 * 2097152 * int64_t{10} * 4178 / 4096);
  const Duration without_slices = (chunk + Duration::us(50)) * 30;
  EXPECT_LT(off(recurrence(config), closed_form(config)), 0.001);
  EXPECT_GT(off(without_slices, recurrence(config)), 0.20);
}

TEST(RingTime, WorkedExampleByHand) {
  // 2 ranks, 8 MiB over 10 Gbit/s, 10 us: two loops of two steps. A slice of 1 MiB is 256 packets,
  // 4178 bytes each, plus 20: 855,670.4 ns; two of them outlast slice + latency.
  const RingPlanConfig config = uniform(2, 8 * kMiB, 10, Duration::us(10));
  const int64_t slice = (int64_t{256} * 4178 + 20) * 800;  // ps
  EXPECT_EQ(recurrence(config).ps(), 2 * (4 * slice + Duration::us(10).ps()));
}

TEST(RingTime, LateRankDelaysEverybodyByItsDelay) {
  RingPlanConfig config = uniform(8, 16 * kMiB, 100, Duration::us(2));
  const Duration even = recurrence(config);
  config.entry_delay.assign(8, Duration());
  config.entry_delay[3] = Duration::ms(5);
  // Less what the others did while they waited: at most 2 of the 14 steps, the window.
  const Duration late = recurrence(config) - Duration::ms(5);
  EXPECT_LT(late, even);
  EXPECT_GT(late, even * 12 / 14);
}

TEST(RingTime, RingRunsAtThePaceOfItsSlowestLink) {
  RingPlanConfig config = uniform(4, 64 * kMiB, 100, Duration::us(2));
  const Duration even = recurrence(config);
  config.hops[1].rate = Rate::bits_per_second(25'000'000'000);
  const double slower = recurrence(config).seconds() / even.seconds();
  EXPECT_GT(slower, 3.6);
  EXPECT_LT(slower, 4.05);
}

TEST(RingTime, TwoChannelsOnHalfTheRateEachTakeAsLongAsOne) {
  const auto parts = cut_all_reduce(64 * kMiB, 4, 2);
  RingPlanConfig half = uniform(4, 0, 50, Duration::us(2));
  half.schedule = RingSchedule(4, parts[1], 4);
  EXPECT_LT(off(recurrence(half), recurrence(uniform(4, 64 * kMiB, 100, Duration::us(2)))), 0.01);
}

}  // namespace
}  // namespace understudy
