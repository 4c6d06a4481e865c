// What a rank does besides its collectives: when it enters them, what an iteration comes to, and
// the distributions that entries are drawn from.
#include "collective_model/iteration/iteration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>

#include "collective_model/iteration/jitter.h"

namespace understudy {
namespace {

Time at(int64_t us) { return Time::zero() + Duration::us(us); }

TEST(EntryClock, ComputingWaitsForTheOperationBefore) {
  EntryClock clock;
  EXPECT_EQ(clock.enter({.compute = Duration::us(5)}, at(0)), at(5));
  EXPECT_EQ(clock.enter({.compute = Duration::us(5), .delay = Duration::us(2)}, at(8)), at(15));
  EXPECT_EQ(clock.computed(), at(13));
}

TEST(EntryClock, WithOverlapOnlyTheCollectiveWaits) {
  EntryClock clock;
  clock.enter({.compute = Duration::us(5)}, at(0));
  // Computed until 10, while the operation before runs until 30; then until 50, which is later.
  EXPECT_EQ(clock.enter({.waits = false, .compute = Duration::us(5)}, at(30)), at(30));
  EXPECT_EQ(clock.computed(), at(10));
  EXPECT_EQ(clock.enter({.waits = false, .compute = Duration::us(40)}, at(31)), at(50));
  // The next iteration: another 7 besides, then it waits for what is done at 60.
  const EntryStep next = {.beside = Duration::us(7), .compute = Duration::us(1)};
  EXPECT_EQ(clock.enter(next, at(60)), at(61));
}

TEST(EntryClock, WithAPeriodRanksEnterAtItsMultiples) {
  EntryClock clock;
  const Duration period = Duration::us(100);
  EXPECT_EQ(clock.enter({.period = period}, at(0)), at(0));
  EXPECT_EQ(clock.enter({.period = period}, at(1)), at(100));
  EXPECT_EQ(clock.enter({.compute = Duration::us(50), .period = period}, at(150)), at(200));
  EXPECT_EQ(clock.enter({.delay = Duration::us(7), .period = period}, at(201)), at(307));
  EXPECT_EQ(clock.computed(), at(201));
}

TEST(RankSteps, IterationsThatRepeatAreToldOnce) {
  const EntryStep first{.compute = Duration::us(5)}, last{.waits = false};
  const EntryStep again{.beside = Duration::us(1), .compute = Duration::us(7)};
  RankWork work;
  work.per_iteration = 2;
  for (int i = 0; i < 4; ++i) {
    work.steps.push_back(i == 0 ? first : again);
    work.steps.push_back(last);
  }
  const RankSteps steps = repeated_steps(work);
  EXPECT_EQ(steps.first, (std::vector<EntryStep>{first, last, again, last}));
  for (size_t o = 0; o < 8; ++o) EXPECT_EQ(steps.at(o), work.steps[o]) << o;
  EXPECT_EQ(steps.at(100), again);
  EXPECT_EQ(steps.at(101), last);
}

TEST(RankSteps, IterationsThatDifferAreAllTold) {
  RankWork work;
  for (int i = 0; i < 4; ++i) work.steps.push_back({.delay = Duration::us(i)});
  EXPECT_EQ(repeated_steps(work).first, work.steps);
  work.steps.push_back(work.steps.back());
  EXPECT_EQ(repeated_steps(work).first.size(), 4u);
}

/// Of one rank whose operations take `took` from their entries.
struct OneRank {
  std::vector<Time> done;
  std::vector<RankIteration> iterations;
};
OneRank run(const RankWork& work, Duration took) {
  OneRank out;
  EntryClock clock;
  Time last;
  for (const EntryStep& step : work.steps) {
    last = clock.enter(step, last) + took;
    out.done.push_back(last);
  }
  out.iterations = iterations_of(work, out.done);
  return out;
}

RankWork work(bool overlap, std::vector<int64_t> before, int64_t beside = 0) {
  RankWork out;
  out.per_iteration = static_cast<uint32_t>(before.size());
  out.beside = Duration::us(beside);
  out.after = Duration::us(4);
  out.pause = Duration::us(100);
  for (unsigned i = 0; i < 2; ++i) {
    for (size_t o = 0; o < before.size(); ++o) {
      EntryStep step;
      step.waits = o == 0 || !overlap;
      step.compute = Duration::us(before[o]);
      if (o == 0 && i > 0) {
        step.beside = out.beside;
        step.compute += out.after + out.pause;
      }
      out.steps.push_back(step);
    }
  }
  return out;
}

TEST(Iterations, WithoutOverlapEveryOperationIsExposed) {
  const OneRank r = run(work(false, {10, 20, 30}), Duration::us(7));
  ASSERT_EQ(r.iterations.size(), 2u);
  for (const RankIteration& iteration : r.iterations) {
    EXPECT_EQ(iteration.took(), Duration::us(60 + 3 * 7 + 4));
    EXPECT_EQ(iteration.compute, Duration::us(64));
    EXPECT_EQ(iteration.exposed_time(), Duration::us(21));
    EXPECT_EQ(iteration.exposed, 3u);
  }
  EXPECT_EQ(r.iterations[1].begin, at(85 + 100));
}

TEST(Iterations, OverlapHidesAllButTheLast) {
  const OneRank r = run(work(true, {10, 20, 30}), Duration::us(7));
  for (const RankIteration& iteration : r.iterations) {
    EXPECT_EQ(iteration.exposed_time(), Duration::us(7));
    EXPECT_EQ(iteration.exposed, 1u);
  }
}

TEST(Iterations, OverlapHidesWhatComputingCovers) {
  // Issued at 10, 30, 32 and 34; done at 17, 37, 44 and 51.
  const OneRank r = run(work(true, {10, 20, 2, 2}), Duration::us(7));
  for (const RankIteration& iteration : r.iterations) {
    EXPECT_EQ(iteration.took(), Duration::us(55));
    EXPECT_EQ(iteration.exposed_time(), Duration::us(17));
    EXPECT_EQ(iteration.exposed, 3u);
  }
}

TEST(Iterations, ComputingBesideTheLastHidesItToo) {
  const OneRank r = run(work(true, {10, 20, 2}, 50), Duration::us(7));
  for (const RankIteration& iteration : r.iterations) {
    EXPECT_EQ(iteration.took(), Duration::us(82 + 4));
    EXPECT_EQ(iteration.compute, iteration.took());
    EXPECT_EQ(iteration.exposed, 0u);
  }
}

TEST(Iterations, ComputingIsShownWhereItWas) {
  const RankWork w = work(true, {10, 20, 2}, 50);
  const OneRank r = run(w, Duration::us(7));
  const std::vector<ComputeSpan> spans = compute_spans(w, r.done);
  ASSERT_EQ(spans.size(), 10u);
  Duration sum;
  Time last;
  for (const ComputeSpan& span : spans) {
    EXPECT_GE(span.from, last);
    last = span.from + span.length;
    sum += span.length;
  }
  EXPECT_EQ(sum, r.iterations[0].compute + r.iterations[1].compute);
  EXPECT_EQ(last, r.iterations[1].end);
  EXPECT_EQ(spans[5].from, at(86 + 100));
}

struct Moments {
  double mean = 0, deviation = 0;  ///< us
};
Moments moments(const Jitter& jitter) {
  constexpr unsigned kDraws = 20'000;
  Moments out;
  double squares = 0;
  for (unsigned i = 0; i < kDraws; ++i) {
    const double us = draw(jitter, 1, 2, i).microseconds();
    out.mean += us / kDraws;
    squares += us * us / kDraws;
  }
  out.deviation = std::sqrt(squares - out.mean * out.mean);
  return out;
}

// Means and standard deviations of 20,000 draws, whose standard error is below 1 %.
TEST(Jitter, DistributionsHaveTheirMoments) {
  using Kind = Jitter::Kind;
  const Moments uniform = moments({Kind::kUniform, Duration::us(10), Duration::us(40)});
  EXPECT_NEAR(uniform.mean, 25, 0.3);
  EXPECT_NEAR(uniform.deviation, 30 / std::sqrt(12), 0.2);
  const Moments normal = moments({Kind::kNormal, Duration::us(100), Duration::us(20)});
  EXPECT_NEAR(normal.mean, 100, 0.6);
  EXPECT_NEAR(normal.deviation, 20, 0.4);
  // Cut at 0, a normal distribution around 0 has the mean sigma / sqrt(2 pi).
  const Moments cut = moments({Kind::kNormal, Duration(), Duration::us(20)});
  EXPECT_NEAR(cut.mean, 20 / std::sqrt(2 * std::numbers::pi), 0.3);
  const Moments exponential = moments({Kind::kExponential, Duration::us(50), Duration()});
  EXPECT_NEAR(exponential.mean, 50, 1.5);
  EXPECT_NEAR(exponential.deviation, 50, 2.5);
  const Moments lognormal = moments({Kind::kLognormal, Duration::us(30), Duration(), 0.5});
  EXPECT_NEAR(lognormal.mean, 30 * std::exp(0.125), 0.6);
}

TEST(Jitter, DrawsFollowFromSeedStreamAndNumber) {
  const Jitter jitter{Jitter::Kind::kUniform, Duration(), Duration::s(3600)};
  std::set<int64_t> drawn;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint64_t stream = 0; stream < 10; ++stream) {
      for (uint64_t number = 0; number < 10; ++number) {
        EXPECT_EQ(draw(jitter, seed, stream, number), draw(jitter, seed, stream, number));
        drawn.insert(draw(jitter, seed, stream, number).ps());
      }
    }
  }
  EXPECT_EQ(drawn.size(), 1000u);
}

TEST(Jitter, WhatIsTooLongIsCut) {
  const Jitter wild{Jitter::Kind::kLognormal, Duration::s(3600), Duration(), 10};
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_LE(draw(wild, 1, 1, i), Jitter::most());
    EXPECT_GE(draw(wild, 1, 1, i), Duration());
  }
}

}  // namespace
}  // namespace understudy
