// Deadlocks are found when they are there, and only then: random flows round a ring of switches
// with PFC, watched all the time. What was stuck once stays so.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "dataplane/fabric/deadlock.h"
#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

/// `n` switches in a ring with a NIC each.
Graph ring_of(unsigned n, std::mt19937_64& random) {
  Graph g;
  for (unsigned i = 0; i < n; ++i) {
    g.add_vertex({VertexKind::kSwitch, numbered("s", i), 0, 0, 1});
  }
  const Rate rate = Rate::bits_per_second(100'000'000'000);
  for (unsigned i = 0; i < n; ++i) {
    const Duration latency = Duration::ns(static_cast<int64_t>(50 + random() % 2000));
    g.connect(i, (i + 1) % n, rate, latency);
    g.connect(g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}), i, rate, latency);
  }
  return g;
}

FlowSpec round(const Graph& g, unsigned n, unsigned from, unsigned hops, uint64_t bytes) {
  std::vector<std::string> names = {numbered("h", from)};
  for (unsigned i = 0; i <= hops; ++i) names.push_back(numbered("s", (from + i) % n));
  names.push_back(numbered("h", (from + hops) % n));
  return flow_of(g, names, bytes);
}

struct Outcome {
  bool found = false, finished = false;
  size_t links = 0;
};

Outcome watched(uint64_t seed) {
  std::mt19937_64 random(seed);
  const unsigned n = 3 + static_cast<unsigned>(random() % 3);
  const Graph g = ring_of(n, random);
  std::vector<FlowSpec> flows;
  for (unsigned i = 0; i < n; ++i) {
    const unsigned hops = 1 + static_cast<unsigned>(random() % (n - 1));
    flows.push_back(round(g, n, i, hops, 20'000 + random() % 400'000));
  }
  NetworkSettings settings = lossless(1 << 20, 0);
  PfcSettings& pfc = *settings.classes[0].pfc;
  pfc.headroom_by_link = true;
  pfc.xoff = 10'000 + random() % 40'000;
  pfc.xon = pfc.xoff / 2;
  FlowSettings patient;
  patient.timeout = Duration();
  FlowRun run(g, flows, settings, patient);
  DeadlockSearch search(run.net);
  Outcome outcome;
  for (uint64_t i = 0; !run.net.next().is_never(); ++i) {
    run.net.step();
    if (i % 8 != 0) continue;
    const auto cycle = search.find(run.net);
    EXPECT_TRUE(!outcome.found || !cycle.empty()) << "it has come loose, seed " << seed;
    outcome.found = outcome.found || !cycle.empty();
  }
  const auto cycle = search.find(run.net);
  EXPECT_TRUE(!outcome.found || !cycle.empty());
  outcome.found = !cycle.empty();
  for (size_t i = 0; i < cycle.size(); ++i) {
    EXPECT_EQ(g.link(cycle[i]).to, g.link(cycle[(i + 1) % cycle.size()]).from);
  }
  EXPECT_EQ(run.lost(), 0u);
  outcome.finished = run.traffic.all_finished();
  outcome.links = cycle.size();
  return outcome;
}

// rules: A8.1
TEST(Deadlock, IsFoundWhereFlowsNeverEndAndNowhereElse) {
  unsigned locked = 0, free = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const Outcome outcome = watched(seed);
    EXPECT_NE(outcome.found, outcome.finished) << seed;
    (outcome.found ? locked : free) += 1;
    EXPECT_EQ(outcome.links >= 3, outcome.found) << seed;
  }
  EXPECT_GT(locked, 10u);
  EXPECT_GT(free, 10u);
}

}  // namespace
}  // namespace understudy
