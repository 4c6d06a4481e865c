// The plan equals the contracted dependency graph: for rings of 2 to 1024 ranks, any set of real
// ranks, uneven links and late ranks, PlanRun's data and credits come at the graph's times to the
// picosecond, and never need an input that comes later.
#include "collective_model/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "tests/collective_model_graph.h"

namespace understudy {
namespace {

using Kind = PlanOutput::Kind;

RingPlan make_plan(RingPlanConfig config) {
  Result<RingPlan> plan = RingPlan::make(std::move(config));
  EXPECT_TRUE(plan.has_value());
  return *plan;
}

RingPlanConfig uniform(uint32_t ranks, uint64_t bytes, std::vector<uint32_t> real) {
  return {RingSchedule(ranks, {0, bytes}, 4),
          std::vector<RingHop>(ranks, {Rate::bits_per_second(100'000'000'000), Duration::us(2)}),
          {},
          std::move(real),
          {},
          Duration::us(1),
          false};
}

struct Input {
  int64_t time;
  bool data;  // else an acknowledgement
  uint32_t rank;
  uint32_t message;
  bool operator<(const Input& o) const {
    return std::tie(time, message, rank, data) < std::tie(o.time, o.message, o.rank, o.data);
  }
};

/// What the real ranks do, in time order. `coalesce`: only the second of two messages is
/// acknowledged, for both.
std::vector<Input> real_side(const RingPlan& plan, RingGraph& graph, bool coalesce) {
  std::vector<Input> inputs;
  for (uint32_t r = 0; r < plan.ranks(); ++r) {
    const uint32_t next = plan.next(r);
    if (plan.is_real(r) == plan.is_real(next)) continue;
    for (uint32_t m = 0; m < graph.messages(); ++m) {
      if (plan.is_real(r)) {
        inputs.push_back({graph.arrival_time(next, m), true, r, m});
      } else if (!coalesce || m % 2 == 1) {
        inputs.push_back({graph.acked_time(r, m), false, r, m});
      }
    }
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

/// Takes all outputs; each must be the next of its kind and rank, at the graph's time, and not in
/// the past. Returns their number.
size_t take_outputs(PlanRun& run, RingGraph& graph, const RingPlan& plan, int64_t now,
                    std::vector<uint32_t>& data, std::vector<uint32_t>& credits) {
  size_t count = 0;
  PlanOutput out;
  while (run.next(out)) {
    ++count;
    const bool is_data = out.kind == Kind::kData;
    uint32_t& expected = (is_data ? data : credits)[out.rank];
    const uint32_t sender = is_data ? out.rank : plan.previous(out.rank);
    const int64_t time = is_data ? graph.process_time(out.rank, out.message)
                                 : graph.grant_time(out.rank, out.message);
    EXPECT_EQ(out.message, expected);
    EXPECT_EQ(out.time.ps(), time)
        << "rank " << out.rank << " message " << out.message << " data " << is_data;
    EXPECT_EQ(out.size, plan.schedule().size(sender, out.message));
    EXPECT_GE(out.time.ps(), now);
    ++expected;
    if (::testing::Test::HasFailure()) break;
  }
  return count;
}

void expect_equals_graph(const RingPlan& plan, PlanRun& run, RingGraph& graph, Time entry,
                         bool coalesce) {
  const std::vector<Input> inputs = real_side(plan, graph, coalesce);
  std::vector<uint32_t> data(plan.ranks()), credits(plan.ranks());
  run.reset(plan, entry);
  size_t outputs = take_outputs(run, graph, plan, kLongBefore.ps(), data, credits);
  for (const Input& input : inputs) {
    const Time t = Time::from_ps(input.time);
    ASSERT_TRUE(input.data ? run.on_real_data(input.rank, input.message, t)
                           : run.on_env_acked(input.rank, input.message, t));
    outputs += take_outputs(run, graph, plan, input.time, data, credits);
    if (::testing::Test::HasFailure()) return;
  }
  size_t boundaries = 0;
  for (uint32_t r = 0; r < plan.ranks(); ++r) {
    if (!plan.is_real(r)) {
      EXPECT_EQ(run.completion(r).ps(), graph.completion_time(r));
    }
    if (plan.is_real(r) != plan.is_real(plan.next(r))) ++boundaries;
  }
  EXPECT_TRUE(run.finished());
  EXPECT_EQ(outputs, boundaries * graph.messages());
}

/// Entries of all ranks: the common one plus the rank's delay.
std::vector<int64_t> entries_of(const RingPlan& plan, Time entry) {
  std::vector<int64_t> entries;
  for (uint32_t r = 0; r < plan.ranks(); ++r) {
    entries.push_back((entry + plan.entry_delay(r)).ps());
  }
  return entries;
}

enum class Reals { kNone, kOne, kSeveral, kAdjacent, kAllButOne };

std::vector<uint32_t> choose_reals(Reals how, uint32_t n, std::mt19937_64& random) {
  const uint32_t first = static_cast<uint32_t>(random() % n);
  std::set<uint32_t> chosen;
  switch (how) {
    case Reals::kNone:
      break;
    case Reals::kOne:
      chosen = {first};
      break;
    case Reals::kSeveral:
      for (uint32_t i = 0; i < 1 + n / 3; ++i) chosen.insert(static_cast<uint32_t>(random() % n));
      break;
    case Reals::kAdjacent:
      chosen = {first, (first + 1) % n};
      if (n > 5) chosen.insert((first + 4) % n);
      break;
    case Reals::kAllButOne:
      for (uint32_t r = 0; r < n; ++r) {
        if (r != first) chosen.insert(r);
      }
      break;
  }
  return {chosen.begin(), chosen.end()};
}

/// One random ring; `loops` bounds its size.
void check_random_ring(uint32_t n, Reals reals, uint64_t loops, PlanRun& run, uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << n << " ranks, seed " << seed);
  std::mt19937_64 random(seed);
  const uint64_t most = loops * n * RingSchedule::kChunkBytes / 4;
  // Of three rings one is small, one ends on a loop border.
  uint64_t elements = 1 + random() % most;
  if (seed % 3 == 0) elements = 1 + random() % (n * 20'000);
  if (seed % 3 == 1) elements = (1 + random() % loops) * n * RingSchedule::kChunkBytes / 4;
  RingPlanConfig config = uniform(n, elements * 4, choose_reals(reals, n, random));
  const uint64_t rates[] = {100'000'000, 10'000'000'000, 25'000'000'000, 400'000'000'000};
  const uint64_t rate = rates[random() % 4];
  for (RingHop& hop : config.hops) {
    hop = {Rate::bits_per_second(rate), Duration::ns(1 + static_cast<int64_t>(random() % 20'000))};
  }
  config.hops[random() % n].rate = Rate::bits_per_second(rate / 4);
  config.entry_delay.resize(n);
  for (Duration& delay : config.entry_delay) {
    delay = Duration::ns(static_cast<int64_t>(random() % 3'000));
  }
  config.entry_delay[random() % n] = Duration::us(static_cast<int64_t>(random() % 5'000));
  config.wire.mtu = random() % 2 == 0 ? 4096 : 1024;
  config.step_cost = Duration::ns(static_cast<int64_t>(random() % 4'000));
  config.credits_preposted = random() % 2 == 0;
  const bool coalesce = random() % 2 == 0;
  const RingPlan plan = make_plan(config);
  const Time entry = Time::from_ps(static_cast<int64_t>(random() % 1'000'000'000));
  RingGraph graph(plan, entries_of(plan, entry), Duration::us(100).ps(), seed, coalesce);
  expect_equals_graph(plan, run, graph, entry, coalesce);
}

TEST(RingPlan, EqualsTheContractedGraphOfSmallRings) {
  uint64_t seed = 0;
  for (uint32_t n = 2; n <= 16; ++n) {
    for (const Reals reals :
         {Reals::kNone, Reals::kOne, Reals::kSeveral, Reals::kAdjacent, Reals::kAllButOne}) {
      for (int i = 0; i < 8; ++i) {
        PlanRun run(n);
        check_random_ring(n, reals, 4, run, ++seed);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(RingPlan, EqualsTheContractedGraphOfLargeRings) {
  uint64_t seed = 1000;
  for (const uint32_t n : {17u, 31u, 32u, 33u, 63u, 64u, 100u, 127u, 128u, 200u, 255u, 256u}) {
    for (const Reals reals : {Reals::kOne, Reals::kSeveral, Reals::kAdjacent}) {
      PlanRun run(n);
      check_random_ring(n, reals, 2, run, ++seed);
      if (HasFailure()) return;
    }
  }
  for (const uint32_t n : {511u, 768u, 1023u, 1024u}) {
    PlanRun run(n);
    check_random_ring(n, Reals::kOne, 1, run, ++seed);
    if (HasFailure()) return;
  }
}

TEST(RingPlan, OneRunServesOperationAfterOperation) {
  RingPlanConfig config = uniform(6, 30'000'000, {2});
  config.entry_delay.resize(6);
  config.entry_delay[4] = Duration::us(700);
  const RingPlan plan = make_plan(config);
  PlanRun run(8);
  Time entry = Time::zero();
  std::vector<int64_t> entries = entries_of(plan, entry);
  for (uint64_t operation = 0; operation < 3; ++operation) {
    RingGraph graph(plan, entries, Duration::us(50).ps(), operation, false);
    expect_equals_graph(plan, run, graph, entry, false);
    ASSERT_FALSE(HasFailure());
    // The next operation is entered too early: every rank comes from its own end of this one.
    entry = Time::from_ps(graph.completion_time(2)) - Duration::us(5);
    entries = entries_of(plan, entry);
    bool waits = false;
    for (const uint32_t r : {0u, 1u, 3u, 4u, 5u}) {
      waits |= entries[r] < run.completion(r).ps();
      entries[r] = std::max(entries[r], run.completion(r).ps());
    }
    EXPECT_TRUE(waits);
  }
}

TEST(RingPlan, AdjacentRealRanksNeedNoPlanBetweenThem) {
  const RingPlan plan = make_plan(uniform(2, 4096, {0, 1}));
  PlanRun run(2);
  run.reset(plan, Time::zero());
  PlanOutput out;
  EXPECT_FALSE(run.next(out));
  EXPECT_TRUE(run.finished());
  EXPECT_FALSE(run.on_real_data(0, 0, Time::zero()));
}

TEST(RingPlan, PrepostedCreditsComeAtOnce) {
  RingPlanConfig config = uniform(3, 8 << 20, {0});
  config.credits_preposted = true;
  const RingPlan plan = make_plan(config);
  PlanRun run(3);
  run.reset(plan, Time::from_ps(5));
  PlanOutput out;
  uint32_t credits = 0;
  while (run.next(out)) {
    if (out.kind == Kind::kData) continue;
    EXPECT_EQ(out.time, kLongBefore);
    EXPECT_EQ(out.rank, 1u);
    ++credits;
  }
  EXPECT_EQ(credits, 4u);
}

TEST(RingPlan, IgnoresInputsThatCannotBe) {
  const RingPlan plan = make_plan(uniform(4, 64 << 20, {0}));
  PlanRun run(4);
  EXPECT_FALSE(run.on_real_data(0, 0, Time::zero()));  // no operation yet
  run.reset(plan, Time::zero());
  EXPECT_FALSE(run.on_real_data(0, 0, Time::zero()));  // its credit has not been taken
  EXPECT_FALSE(run.on_env_acked(3, 0, Time::zero()));  // not sent
  PlanOutput out;
  uint32_t data = 0, credits = 0;
  while (run.next(out)) ++(out.kind == Kind::kData ? data : credits);
  EXPECT_EQ(data, 4u);  // three ring steps need nobody else, but the window holds four messages
  EXPECT_EQ(credits, 4u);
  EXPECT_FALSE(run.on_real_data(0, 1, Time::zero()));  // out of order
  EXPECT_FALSE(run.on_real_data(1, 0, Time::zero()));  // not real
  EXPECT_FALSE(run.on_real_data(4, 0, Time::zero()));  // no such rank
  EXPECT_FALSE(run.on_env_acked(0, 0, Time::zero()));  // real
  EXPECT_FALSE(run.on_env_acked(1, 0, Time::zero()));  // its successor is emulated
  EXPECT_FALSE(run.on_env_acked(3, 4, Time::zero()));  // not sent
  EXPECT_FALSE(run.on_env_acked(9, 0, Time::zero()));
  EXPECT_TRUE(run.on_env_acked(3, 1, Time::from_ps(100)));
  EXPECT_FALSE(run.on_env_acked(3, 1, Time::from_ps(100)));  // again
  EXPECT_TRUE(run.on_real_data(0, 0, Time::from_ps(100)));
  EXPECT_FALSE(run.on_real_data(0, 0, Time::from_ps(100)));
  EXPECT_FALSE(run.finished());
  EXPECT_TRUE(run.completion(1).is_never());
}

TEST(RingPlan, NamesWhatDoesNotFit) {
  const auto error = [](RingPlanConfig config) {
    const auto plan = RingPlan::make(std::move(config));
    return plan.has_value() ? std::string() : plan.error().text;
  };
  RingPlanConfig config = uniform(4, 4096, {0});
  EXPECT_EQ(error(config), "");
  config.real = {4};
  EXPECT_EQ(error(config), "ring plan: real: rank 4 of 4");
  config = uniform(4, 4096, {0});
  config.hops.pop_back();
  EXPECT_EQ(error(config), "ring plan: hops: 3 given for 4 ranks");
  config = uniform(4, 4096, {0});
  config.entry_delay.resize(5);
  EXPECT_EQ(error(config), "ring plan: entry_delay: 5 given for 4 ranks");
  config = uniform(4, 4096, {0});
  config.wire.mtu = 0;
  EXPECT_EQ(error(config), "ring plan: wire.mtu: must not be 0");
  EXPECT_EQ(error(uniform(1, 4096, {0})), "ring plan: ranks: a ring needs at least 2, got 1");
}

}  // namespace
}  // namespace understudy
