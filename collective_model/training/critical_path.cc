#include "collective_model/training/critical_path.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "collective_model/training/iteration_result.h"
#include "dataplane/base/assert.h"

namespace understudy {
namespace {

using What = CriticalStretch::What;

/// A node on one rank of its group.
struct At {
  uint32_t node = 0, rank = 0;
};

class Walk {
 public:
  Walk(const IterationGraph& graph, const WorkloadCommunicators& done)
      : graph_(graph), done_(done), workload_(graph.workload) {}

  std::vector<CriticalStretch> run(uint32_t iteration, Time begin) {
    At at = last_of(iteration);
    Time until = end_of(at);
    while (until > begin) {
      const WorkloadNode& node = workload_.nodes()[at.node];
      if (node.kind == WorkloadNode::Kind::kOperation) {
        at = entered_last(at);
        const Time from = std::max(begin, ready(at));
        add(of_operation(at), until - from);
        until = from;
      } else {
        const Time from = std::max(begin, ready(at));
        add_computing(at, until - from);
        until = from;
      }
      if (until <= begin) break;
      at.node = waited_for(at);
    }
    std::vector<CriticalStretch> out;
    for (const auto& [key, length] : sums_) {
      const auto& [what, stage, other, replica] = key;
      out.push_back({what, stage, other, replica, length});
    }
    std::ranges::stable_sort(out, std::ranges::greater{}, &CriticalStretch::length);
    return out;
  }

 private:
  using Key = std::tuple<What, uint32_t, uint32_t, uint32_t>;

  Time ready(const At& at) const { return done_.executor().ready(at.node, at.rank); }
  Time end_of(const At& at) const {
    const WorkloadNode& node = workload_.nodes()[at.node];
    if (node.kind == WorkloadNode::Kind::kOperation) {
      return done_.end(node.group, node.operation, at.rank);
    }
    return ready(at) + node.time(at.rank);
  }

  At last_of(uint32_t iteration) const {
    At last;
    Time latest = Time::from_ps(-1);
    for (const uint32_t node : graph_.ends[iteration]) {
      for (uint32_t rank = 0; rank < workload_.ranks(workload_.nodes()[node].group); ++rank) {
        const Time end = end_of({node, rank});
        if (end <= latest) continue;
        last = {node, rank};
        latest = end;
      }
    }
    return last;
  }

  /// On the same rank: what came last of all that the node waits for.
  uint32_t waited_for(const At& at) const {
    const std::vector<uint32_t>& waits = graph_.waits[at.node];
    ASSERT_INVARIANT(!waits.empty());
    return *std::ranges::max_element(waits, {}, [&](uint32_t former) {
      return end_of({former, at.rank});
    });
  }

  /// Of all members of the operation.
  At entered_last(const At& at) const {
    const WorkloadNode& node = workload_.nodes()[at.node];
    const CommunicatorFamily& family =
        done_.families()[done_.family_of(node.group, node.operation)];
    At last = at;
    Time latest = Time::from_ps(-1);
    family.each_member(workload_, family.number_of(node.group, node.operation), at.rank,
                       [&](uint32_t theirs, uint32_t rank) {
                         const Time entry = ready({theirs, rank});
                         if (entry <= latest) return;
                         last = {theirs, rank};
                         latest = entry;
                       });
    return last;
  }

  Key of_operation(const At& at) const {
    const WorkloadNode& node = workload_.nodes()[at.node];
    const TrainingFamily& family = graph_.families[done_.family_of(node.group, node.operation)];
    switch (family.kind) {
      case TrainingFamily::Kind::kMessages:
        return {What::kPipeline, family.stage, family.to, 0};
      case TrainingFamily::Kind::kNorm:
        return {What::kNorm, 0, 0, 0};
      case TrainingFamily::Kind::kExperts:
        return {What::kExperts, family.stage, family.stage, 0};
      case TrainingFamily::Kind::kContext:
        return {What::kContext, family.stage, family.stage, 0};
      case TrainingFamily::Kind::kData:
      case TrainingFamily::Kind::kExpertData:
      case TrainingFamily::Kind::kEnds:
        break;
    }
    return {What::kData, family.stage, family.to, 0};
  }

  void add_computing(const At& at, Duration length) {
    const NodeMark& mark = graph_.marks[at.node];
    const uint32_t stage = workload_.nodes()[at.node].group;
    if (mark.kind == NodeMark::Kind::kOptimizer)
      return add({What::kOptimizer, stage, 0, 0}, length);
    const Duration tensor = std::min(length, mark.tensor);
    add({What::kTensor, stage, 0, at.rank}, tensor);
    add({What::kCompute, stage, 0, at.rank}, length - tensor);
  }
  void add(const Key& key, Duration length) {
    if (length > Duration()) sums_[key] += length;
  }

  const IterationGraph& graph_;
  const WorkloadCommunicators& done_;
  const Workload& workload_;
  std::map<Key, Duration> sums_;
};

}  // namespace

std::vector<CriticalStretch> critical_path(const IterationGraph& graph,
                                           const WorkloadCommunicators& done) {
  const std::vector<IterationResult> results = iteration_results(graph, done);
  if (results.empty()) return {};
  return Walk(graph, done).run(static_cast<uint32_t>(results.size()) - 1, results.back().begin);
}

}  // namespace understudy
