#include "collective_model/workload/chain.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace understudy {
namespace {

/// One value of all ranks' steps; empty where it is nothing on all of them.
std::vector<Duration> row(const std::vector<EntryStep>& steps, Duration EntryStep::*value) {
  std::vector<Duration> out;
  out.reserve(steps.size());
  for (const EntryStep& step : steps) out.push_back(step.*value);
  if (std::ranges::all_of(out, [](Duration time) { return time == Duration(); })) out.clear();
  return out;
}

}  // namespace

uint32_t add_chain(Workload& workload, const Chain& chain) {
  using Kind = WorkloadNode::Kind;
  const uint32_t group = workload.add_group(chain.ranks);
  const uint32_t start = workload.add({.kind = Kind::kStart, .group = group, .start = chain.start});
  uint32_t computed = start, before = start;  // of the two streams that a rank has
  std::vector<EntryStep> steps(chain.alike ? 1 : chain.ranks);
  for (uint32_t o = 0; o < chain.operations; ++o) {
    for (uint32_t rank = 0; rank < steps.size(); ++rank) steps[rank] = chain.step(o, rank);
    const bool waits = steps.front().waits;
    if (chain.computes) {
      std::vector<Duration> beside = row(steps, &EntryStep::beside);
      if (!beside.empty()) {
        const uint32_t node =
            workload.add({.kind = Kind::kCompute, .group = group, .times = std::move(beside)});
        workload.order(computed, node);
        computed = node;
      }
      const uint32_t node = workload.add(
          {.kind = Kind::kCompute, .group = group, .times = row(steps, &EntryStep::compute)});
      workload.order(computed, node);
      if (waits && before != computed) workload.order(before, node);
      computed = node;
    }
    const uint32_t operation = workload.add({.kind = Kind::kOperation,
                                             .group = group,
                                             .period = steps.front().period,
                                             .times = row(steps, &EntryStep::delay)});
    if (chain.computes) workload.order(computed, operation);
    if (!chain.computes || (!waits && before != start)) workload.order(before, operation);
    before = operation;
  }
  return group;
}

}  // namespace understudy
