// The law of `nccl-wire.md` 3.13, on the explicit graph that the plan is tested against.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/collective_model_graph.h"

namespace understudy {
namespace {

/// Three loops; the real rank is 0, its predecessor n-1.
RingPlan ring(uint32_t n) {
  RingPlanConfig config{RingSchedule(n, {0, uint64_t{n} * 5 << 20}, 4)};
  config.hops.assign(n, {Rate::bits_per_second(100'000'000'000), Duration::us(2)});
  config.real = {0};
  return *RingPlan::make(std::move(config));
}

/// The last message of rank 0 among the data that `wanted` is made of; -1 if there is none.
/// `slices` collects the slices of that ring step.
int64_t last_real_ancestor(const RingGraph& graph, uint32_t n, RingGraph::Node wanted,
                           std::set<uint32_t>& slices) {
  std::vector<RingGraph::Node> stack = {wanted};
  std::set<RingGraph::Node> seen, real;
  for (uint32_t m = 0; m < graph.messages(); ++m) real.insert(graph.end(0, m));
  int64_t last_step = -1;
  while (!stack.empty()) {
    const RingGraph::Node node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    if (real.contains(node)) {
      const uint32_t m = node - graph.end(0, 0);
      if (m / 2 > last_step) slices.clear();
      last_step = std::max<int64_t>(last_step, m / 2);
      if (m / 2 == last_step) slices.insert(m % 2);
    }
    graph.edges_into(node, [&](const RingGraph::Edge& edge) {
      if (edge.data) stack.push_back(edge.from);
    });
  }
  EXPECT_LT(last_step, int64_t{graph.messages()} / 2) << n;
  return last_step;
}

TEST(RingLaw, EnvironmentAnswersStepMAfterTheRealRanksStepMMinusNPlusOne) {
  for (const uint32_t n : {3u, 4u, 5u, 8u}) {
    const RingPlan plan = ring(n);
    const RingGraph graph(plan, std::vector<int64_t>(n, 0), 0, 0, false);
    const uint32_t steps = plan.schedule().steps();
    ASSERT_EQ(graph.messages(), 3 * steps * 2);
    for (uint32_t m = 0; m < graph.messages(); ++m) {
      const int64_t step = m / 2, law = step - (n - 1);
      std::set<uint32_t> slices;
      const int64_t found = last_real_ancestor(graph, n, graph.process(n - 1, m), slices);
      EXPECT_EQ(found, std::max<int64_t>(law, -1)) << n << " ranks, step " << step;
      // Slice for slice, but a loop begins after both slices of the one before.
      if (law < 0) continue;
      const bool same_loop = law / steps == step / steps;
      EXPECT_EQ(slices, same_loop ? std::set<uint32_t>{m % 2} : (std::set<uint32_t>{0, 1}));
    }
  }
}

}  // namespace
}  // namespace understudy
