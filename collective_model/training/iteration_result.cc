#include "collective_model/training/iteration_result.h"

#include <algorithm>
#include <map>
#include <utility>

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
      case TrainingFamily::Kind::kExpertData:
      case TrainingFamily::Kind::kExperts:
      case TrainingFamily::Kind::kContext:
      case TrainingFamily::Kind::kEnds: {
        // Until it could enter it waited for others of its own, until all had for the slowest.
        const Time own = std::max(before, done_.executor().ready(last, replica));
        const Time all = std::clamp(entered(last, replica), own, from);
        if (own > before) add_wait(parts, last, replica, before, own);
        parts.slowest += all - own;
        exposed(parts, family_of(last).kind) += from - all;
        return;
      }
    }
  }

  static Duration& exposed(IterationParts& parts, TrainingFamily::Kind kind) {
    if (kind == TrainingFamily::Kind::kExperts) return parts.experts;
    return kind == TrainingFamily::Kind::kContext ? parts.context : parts.data;
  }

  /// By the last member of the operation that this replica takes part in.
  Time entered(uint32_t node, uint32_t replica) const {
    const uint32_t own = workload_.nodes()[node].operation;
    const CommunicatorFamily& family = done_.families()[done_.family_of(stage_, own)];
    Time last;
    const auto latest = [&] {
      family.each_member(workload_, family.number_of(stage_, own), replica,
                         [&](uint32_t theirs, uint32_t rank) {
                           last = std::max(last, done_.executor().ready(theirs, rank));
                         });
      return last;
    };
    if (family.layout == CommunicatorFamily::Layout::kPairs) return latest();
    const bool parts = family.layout == CommunicatorFamily::Layout::kParts;
    const auto [it, fresh] = entered_.try_emplace({node, parts ? family.part_of(replica) : 0});
    if (fresh) it->second = latest();
    return it->second;
  }

  /// When the sender of this message, which may be this stage, could send it.
  Time sent(uint32_t node, uint32_t replica) const {
    const uint32_t own = workload_.nodes()[node].operation;
    const CommunicatorFamily& family = done_.families()[done_.family_of(stage_, own)];
    const size_t number = family.number_of(stage_, own);
    const uint32_t sender = family.groups[0];
    const uint32_t theirs = workload_.operations(sender)[family.operations[0][number]];
    return done_.executor().ready(theirs, replica);
  }

  const IterationGraph& graph_;
  const WorkloadCommunicators& done_;
  const Workload& workload_;
  const uint32_t stage_;
  std::vector<uint32_t> computes_;
  mutable std::map<std::pair<uint32_t, uint32_t>, Time> entered_;  ///< by node and part of replicas
};

void add(IterationParts& sum, const IterationParts& more) {
  sum.compute += more.compute;
  sum.tensor += more.tensor;
  sum.optimizer += more.optimizer;
  sum.bubble += more.bubble;
  sum.pipeline += more.pipeline;
  sum.data += more.data;
  sum.experts += more.experts;
  sum.context += more.context;
  sum.slowest += more.slowest;
}

void divide(IterationParts& sum, int64_t by) {
  ASSERT_INVARIANT(by > 0);
  for (Duration* part : {&sum.compute, &sum.tensor, &sum.optimizer, &sum.bubble, &sum.pipeline,
                         &sum.data, &sum.experts, &sum.context, &sum.slowest}) {
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
    case TrainingFamily::Kind::kExpertData:
      return transfer == TrainingTransfer::kAllGather ? "experts' weights" : "experts' gradients";
    case TrainingFamily::Kind::kExperts:
      return "tokens";
    case TrainingFamily::Kind::kContext:
      return "keys";
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
