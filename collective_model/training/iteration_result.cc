#include "collective_model/training/iteration_result.h"

#include <algorithm>
#include <unordered_map>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

using Kind = NodeMark::Kind;

class StageWalk {
 public:
  StageWalk(const IterationGraph& graph, const WorkloadCommunicators& done, uint32_t stage)
      : graph_(graph), done_(done), workload_(graph.workload), stage_(stage) {
    for (uint32_t node = 0; node < workload_.nodes().size(); ++node) {
      const WorkloadNode& known = workload_.nodes()[node];
      if (known.group == stage && known.kind == WorkloadNode::Kind::kCompute) {
        computes_.push_back(node);
      }
    }
  }

  /// Adds to `out`, by iteration, what the replica's time went to.
  void add(uint32_t replica, std::vector<IterationParts>& out) const {
    Time before;
    for (const uint32_t node : computes_) {
      const NodeMark& mark = graph_.marks[node];
      if (mark.iteration >= out.size()) return;
      IterationParts& parts = out[mark.iteration];
      const Time from = done_.executor().ready(node, replica);
      const Duration time = workload_.nodes()[node].time(replica);
      add_wait(parts, node, replica, before, from);
      (mark.kind == Kind::kOptimizer ? parts.optimizer : parts.compute) += time - mark.tensor;
      parts.tensor += mark.tensor;
      before = from + time;
    }
  }

  const std::vector<uint32_t>& computes() const { return computes_; }

 private:
  Time end_of(uint32_t node, uint32_t replica) const {
    return done_.end(stage_, workload_.nodes()[node].operation, replica);
  }
  const TrainingFamily& family_of(uint32_t node) const {
    return graph_.families[done_.family_of(stage_, workload_.nodes()[node].operation)];
  }

  /// From when it had computed what is before until `from`, when it went on.
  void add_wait(IterationParts& parts, uint32_t node, uint32_t replica, Time before,
                Time from) const {
    if (from <= before) return;
    const Duration wait = from - before;
    uint32_t last = ~uint32_t{0};
    Time latest;
    for (const uint32_t former : graph_.waits[node]) {
      if (workload_.nodes()[former].kind != WorkloadNode::Kind::kOperation) continue;
      const Time end = end_of(former, replica);
      if (last != ~uint32_t{0} && end < latest) continue;
      last = former;
      latest = end;
    }
    ASSERT_INVARIANT(last != ~uint32_t{0});
    switch (family_of(last).kind) {
      case TrainingFamily::Kind::kMessages: {
        const Duration way = std::min(wait, latest - sent(last, replica));
        parts.pipeline += way;
        parts.bubble += wait - way;
        return;
      }
      case TrainingFamily::Kind::kNorm: {
        // What it has to reduce itself, then the others.
        const Time own = std::max(before, done_.executor().ready(last, replica));
        if (own > before) add_wait(parts, last, replica, before, own);
        parts.slowest += from - own;
        return;
      }
      case TrainingFamily::Kind::kData:
      case TrainingFamily::Kind::kEnds: {
        // Until it could enter it waited for others of its own, until all had for the slowest.
        const Time own = std::max(before, done_.executor().ready(last, replica));
        const Time all = std::clamp(entered(last, replica), own, from);
        if (own > before) add_wait(parts, last, replica, before, own);
        parts.slowest += all - own;
        parts.data += from - all;
        return;
      }
    }
  }

  /// By the last member of the operation, which in pairs are those of one replica.
  Time entered(uint32_t node, uint32_t replica) const {
    const uint32_t own = workload_.nodes()[node].operation;
    const CommunicatorFamily& family = done_.families()[done_.family_of(stage_, own)];
    const size_t number = number_of(family, own);
    if (family.layout == CommunicatorFamily::Layout::kPairs) {
      Time last;
      for (size_t role = 0; role < family.groups.size(); ++role) {
        const uint32_t theirs =
            workload_.operations(family.groups[role])[family.operations[role][number]];
        last = std::max(last, done_.executor().ready(theirs, replica));
      }
      return last;
    }
    const auto [it, fresh] = entered_.try_emplace(node);
    if (!fresh) return it->second;
    for (size_t role = 0; role < family.groups.size(); ++role) {
      const uint32_t group = family.groups[role];
      const uint32_t theirs = workload_.operations(group)[family.operations[role][number]];
      for (uint32_t rank = 0; rank < workload_.ranks(group); ++rank) {
        it->second = std::max(it->second, done_.executor().ready(theirs, rank));
      }
    }
    return it->second;
  }
  /// Among the family's operations.
  size_t number_of(const CommunicatorFamily& family, uint32_t own) const {
    size_t role = 0;
    while (family.groups[role] != stage_) ++role;
    const std::vector<uint32_t>& all = family.operations[role];
    return static_cast<size_t>(std::ranges::lower_bound(all, own) - all.begin());
  }

  /// When the sender of this message, which may be this stage, could send it.
  Time sent(uint32_t node, uint32_t replica) const {
    const uint32_t own = workload_.nodes()[node].operation;
    const CommunicatorFamily& family = done_.families()[done_.family_of(stage_, own)];
    const size_t number = number_of(family, own);
    const uint32_t sender = family.groups[0];
    const uint32_t theirs = workload_.operations(sender)[family.operations[0][number]];
    return done_.executor().ready(theirs, replica);
  }

  const IterationGraph& graph_;
  const WorkloadCommunicators& done_;
  const Workload& workload_;
  const uint32_t stage_;
  std::vector<uint32_t> computes_;
  mutable std::unordered_map<uint32_t, Time> entered_;  ///< by node
};

void add(IterationParts& sum, const IterationParts& more) {
  sum.compute += more.compute;
  sum.tensor += more.tensor;
  sum.optimizer += more.optimizer;
  sum.bubble += more.bubble;
  sum.pipeline += more.pipeline;
  sum.data += more.data;
  sum.slowest += more.slowest;
}

void divide(IterationParts& sum, int64_t by) {
  ASSERT_INVARIANT(by > 0);
  for (Duration* part : {&sum.compute, &sum.tensor, &sum.optimizer, &sum.bubble, &sum.pipeline,
                         &sum.data, &sum.slowest}) {
    *part = *part / by;
  }
}

std::string_view word_of(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return "forward";
    case Kind::kBackward:
      return "backward";
    case Kind::kWeightGradient:
      return "weight gradient";
    case Kind::kOptimizer:
      return "optimizer";
    case Kind::kStart:
    case Kind::kOperation:
      break;
  }
  return "";
}

std::string_view word_of(const TrainingFamily& family, TrainingTransfer transfer, bool sends) {
  switch (family.kind) {
    case TrainingFamily::Kind::kData:
      return transfer == TrainingTransfer::kAllGather ? "weights" : "gradients";
    case TrainingFamily::Kind::kMessages:
      return sends ? "send" : "receive";
    case TrainingFamily::Kind::kEnds:
      return "tied embedding";
    case TrainingFamily::Kind::kNorm:
      break;
  }
  return "norm";
}

}  // namespace

std::vector<IterationResult> iteration_results(const IterationGraph& graph,
                                               const WorkloadCommunicators& done) {
  const Workload& workload = graph.workload;
  std::vector<IterationResult> out;
  Time begin;
  for (const std::vector<uint32_t>& ends : graph.ends) {
    IterationResult result;
    result.begin = result.end = begin;
    for (uint32_t stage = 0; stage < ends.size(); ++stage) {
      for (uint32_t replica = 0; replica < workload.ranks(stage); ++replica) {
        // Its optimizer waits for the norm alone.
        const uint32_t norm = graph.waits[ends[stage]].back();
        if (done.end(stage, workload.nodes()[norm].operation, replica).is_never()) return out;
        result.end = std::max(result.end, done.executor().ready(ends[stage], replica) +
                                              workload.nodes()[ends[stage]].time(replica));
      }
    }
    result.stages.resize(ends.size());
    out.push_back(std::move(result));
    begin = out.back().end;
  }
  int64_t all = 0;
  for (uint32_t stage = 0; stage < workload.groups(); ++stage) {
    const StageWalk walk(graph, done, stage);
    const uint32_t replicas = workload.ranks(stage);
    all += replicas;
    for (uint32_t replica = 0; replica < replicas; ++replica) {
      std::vector<IterationParts> parts(out.size());
      walk.add(replica, parts);
      for (size_t i = 0; i < out.size(); ++i) {
        StageResult& result = out[i].stages[stage];
        const Duration computed = parts[i].compute + parts[i].tensor;
        if (computed > result.longest) {
          result.longest = computed;
          result.slowest = replica;
        }
        add(result.mean, parts[i]);
        add(out[i].mean, parts[i]);
      }
    }
    for (IterationResult& result : out) divide(result.stages[stage].mean, replicas);
  }
  for (IterationResult& result : out) divide(result.mean, all);
  return out;
}

std::vector<TrainingSlice> computed_slices(const IterationGraph& graph,
                                           const WorkloadCommunicators& done, uint32_t stage,
                                           uint32_t replica) {
  std::vector<TrainingSlice> out;
  const StageWalk walk(graph, done, stage);
  for (const uint32_t node : walk.computes()) {
    const NodeMark& mark = graph.marks[node];
    const Time from = done.executor().ready(node, replica);
    out.push_back({word_of(mark.kind), from, from + graph.workload.nodes()[node].time(replica),
                   mark.iteration, mark.micro_batch, mark.chunk, node});
  }
  return out;
}

std::vector<TrainingSlice> operation_slices(const IterationGraph& graph,
                                            const WorkloadCommunicators& done, uint32_t stage,
                                            uint32_t replica) {
  std::vector<TrainingSlice> out;
  const std::vector<uint32_t>& operations = graph.workload.operations(stage);
  std::vector<uint32_t> numbers(graph.families.size());  // of the next one of a family
  for (uint32_t operation = 0; operation < operations.size(); ++operation) {
    const uint32_t node = operations[operation], f = done.family_of(stage, operation);
    const TrainingFamily& family = graph.families[f];
    const FamilyOperation& what = family.operations[numbers[f]++];
    const bool sends = family.kind == TrainingFamily::Kind::kMessages && family.stage == stage;
    const Time end = done.end(stage, operation, replica);
    if (end.is_never()) continue;
    out.push_back({word_of(family, what.transfer, sends), done.executor().ready(node, replica), end,
                   graph.marks[node].iteration, 0, 0, node});
  }
  return out;
}

}  // namespace understudy
