// The fold is exact: real ranks beside the plan of all others end, and hear of every message, when
// they do in a packet-by-packet run of all ranks, which knows no plan. Cases are drawn from a seed
// that is printed; FOLD_SEED, FOLD_CASES and FOLD_TABLE=1 (all of them, the worst first) change it.
#include <cstdio>
#include <map>
#include <set>

#include "collective_model/plan/general_plan.h"
#include "tests/extent.h"
#include "tests/rigs/fold_run.h"

namespace understudy {
namespace {

constexpr uint64_t kSeed = 3, kCases = 300;  // with this seed so many cover every pair of factors

/// Each connection has two cables of its own: the second, for credits and acknowledgements, takes
/// no time but its latency.
struct OwnCables final : FoldNetwork {
  explicit OwnCables(const FoldCase& fold_case) : c(fold_case) {
    for (uint32_t i = 0; i < c.communicator.nodes; ++i) {
      nics.push_back(graph.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}));
    }
  }
  void route(std::vector<FlowSpec>& flows) override {
    std::map<uint32_t, LinkId> cables;
    std::map<uint32_t, uint32_t> places;  // of connections: those of credits, then those of data
    for (const FlowSpec& flow : flows) places[flow.connection] = 0;
    for (uint32_t place = 0; auto& [connection, at] : places) at = place++;
    const auto pairs = static_cast<uint32_t>(places.size() / 2);
    for (FlowSpec& flow : flows) {
      const bool credit = places[flow.connection] < pairs;
      const uint32_t number = places[flow.connection] % pairs * 2;
      if (!cables.contains(number)) {  // a connection's data come first
        const Hop way = hop(graph.vertices()[flow.from].node, graph.vertices()[flow.to].node);
        cables[number] = graph.connect(flow.from, flow.to, way.rate, way.latency);
        cables[number + 1] = graph.connect(flow.to, flow.from,
                                           Rate::bits_per_second(uint64_t{1} << 62), way.latency);
      }
      const LinkId control = cables[number + 1];
      flow.path = {credit ? control : cables[number]};
      flow.back = {credit ? reverse(control) : control};
    }
  }
  Hop hop(uint32_t from_node, uint32_t to_node) const override { return c.hop(from_node, to_node); }
  const FoldCase& c;
};

struct Outcome {
  std::string name;
  FoldDifference by;
  Duration allowed;
};

/// Every packet's end is rounded to a picosecond, the plan's messages are.
Duration allowed(const FoldCase& c) {
  uint64_t most = 0;
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    const auto schedule = c.schedule(r);
    for (const Connection& connection : schedule->connections()) {
      most = std::max(most, connection.messages);
    }
  }
  return Duration::ps(static_cast<int64_t>(most * 2 + c.communicator.ranks() * 2));
}

Outcome compare(const FoldCase& c) {
  OwnCables for_all(c), for_plan(c);
  FoldRun full(c, Others::kPlayed, for_all), folded(c, Others::kPlan, for_plan);
  EXPECT_TRUE(full.run()) << c.name;
  EXPECT_TRUE(folded.run()) << c.name;
  Outcome out{c.name, difference(c, full, folded), allowed(c)};
  Result<GeneralPlan> ideal = GeneralPlan::make_ideal(plan_of(c, for_plan));
  ideal->start(Time::zero());
  ideal->start(Time::zero());  // one that has ended begins anew
  EXPECT_TRUE(ideal->finished());
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    const Time a = full.completion(0, r), b = ideal->completion(r);
    out.by.worst = std::max(out.by.worst, a > b ? a - b : b - a);
  }
  return out;
}

/// Which of a few values each factor has.
std::vector<std::string> factors(const FoldCase& c) {
  const auto bin = [](const char* name, uint64_t value, std::initializer_list<uint64_t> ends) {
    size_t i = 0;
    for (const uint64_t end : ends) i += value > end ? 1 : 0;
    return name + std::to_string(i);
  };
  const bool skewed = std::ranges::any_of(c.entry, [](Duration d) { return d > Duration(); });
  const std::string algorithm = is_p2p(c.operation.collective)
                                    ? "all_to_all"
                                    : std::string(name_of(kAlgorithmNames, c.operation.algorithm));
  return {algorithm,
          bin("ranks", c.communicator.ranks(), {4, 16, 32}),
          bin("gpus", c.communicator.gpus, {1, 4}),
          bin("channels", c.communicator.channels, {1, 4}),
          bin("bytes", c.operation.bytes(), {1 << 10, 1 << 16, 1 << 22}),
          bin("real", c.real.size() / c.communicator.gpus, {1}),
          bin("skew", skewed ? 1 : 0, {0}),
          bin("inside", c.inside ? 1 : 0, {0})};
}

// PAT has one GPU a node, and 5 GPUs on two nodes are more than 4 ranks.
TEST(Fold, CasesCoverEveryPairOfFactors) {
  std::map<std::string, std::set<std::string>> pairs;
  std::vector<std::set<std::string>> values(8);
  for (uint64_t i = 0; i < kCases; ++i) {
    const std::vector<std::string> all = factors(draw_fold(kSeed, i));
    for (size_t a = 0; a < all.size(); ++a) {
      values[a].insert(all[a]);
      for (size_t b = a + 1; b < all.size(); ++b) pairs[all[a]].insert(all[b]);
    }
  }
  for (size_t a = 0; a < values.size(); ++a) {
    EXPECT_GE(values[a].size(), 2u);
    for (size_t b = a + 1; b < values.size(); ++b) {
      for (const std::string& x : values[a]) {
        for (const std::string& y : values[b]) {
          const bool impossible = (x == "pat" && y.starts_with("gpus") && y != "gpus0") ||
                                  (x == "ranks0" && y == "gpus2");
          EXPECT_NE(pairs[x].contains(y), impossible) << x << " with " << y;
        }
      }
    }
  }
}

TEST(Fold, RealRanksDoTheSameBesideThePlan) {
  const uint64_t seed = number("FOLD_SEED", kSeed),
                 cases = number("FOLD_CASES", every_case() ? kCases : kCases / 3);
  std::printf("seed %llu, %llu cases\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(cases));
  std::vector<Outcome> outcomes;
  for (uint64_t i = 0; i < cases; ++i) {
    outcomes.push_back(compare(draw_fold(seed, i)));
    EXPECT_LE(outcomes.back().by.worst, outcomes.back().allowed) << outcomes.back().name;
  }
  if (number("FOLD_TABLE", 0) == 0) return;
  std::ranges::stable_sort(
      outcomes, [](const Outcome& a, const Outcome& b) { return a.by.worst > b.by.worst; });
  std::printf("%12s %10s %14s  case\n", "worst (ps)", "messages", "took (us)");
  for (const Outcome& o : outcomes) {
    std::printf("%12lld %10llu %14.3f  %s\n", static_cast<long long>(o.by.worst.ps()),
                static_cast<unsigned long long>(o.by.messages), o.by.took.microseconds(),
                o.name.c_str());
  }
}

// Rings, and trees over equal hops, whose emulated ranks are not worked out one by one.
TEST(Fold, RealRanksDoTheSameBesideClosedForms) {
  const uint64_t seed = number("FOLD_SEED", kSeed), cases = number("FOLD_CASES", kCases) / 3;
  uint64_t tried = 0, closed = 0;
  for (uint64_t i = 0; tried < cases; ++i) {
    FoldCase c = draw_fold(seed, i);
    if (c.operation.algorithm == Algorithm::kPat || is_p2p(c.operation.collective)) continue;
    ++tried;
    if (c.operation.algorithm == Algorithm::kTree) {
      c.equal_hops = true;
      c.inside = std::nullopt;
    }
    const OwnCables network(c);
    const auto plan = make_plan(plan_of(c, network));
    ASSERT_TRUE(plan);
    if (dynamic_cast<GeneralPlan*>(plan->get()) != nullptr) continue;
    ++closed;
    const Outcome outcome = compare(c);
    EXPECT_LE(outcome.by.worst, outcome.allowed) << outcome.name;
  }
  std::printf("%llu closed forms in %llu cases\n", static_cast<unsigned long long>(closed),
              static_cast<unsigned long long>(cases));
  EXPECT_GT(closed, cases / 2);
}

}  // namespace
}  // namespace understudy
