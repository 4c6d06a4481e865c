#include "ctrl/traces/training_trace.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

using Family = TrainingFamily::Kind;

Duration whole_ns(Duration time) { return Duration::ns((time.ps() + 500) / 1000); }

/// Numbers of ranks, and the communicators that they are in.
class Numbers {
 public:
  Numbers(const Parallel& parallel, TrainingRanks ranks)
      : dp_(parallel.dp), pp_(parallel.pp), tp_(ranks == TrainingRanks::kGpus ? parallel.tp : 1) {}

  uint32_t tensors() const { return tp_; }
  uint32_t ranks() const { return tp_ * dp_ * pp_; }
  uint32_t rank(uint32_t stage, uint32_t replica, uint32_t tensor) const {
    return tensor + tp_ * (replica + dp_ * stage);
  }
  /// Groups of replicas come first, those of the tied embedding behind.
  uint32_t replicas(uint32_t stage, uint32_t tensor) const { return 1 + tensor + tp_ * stage; }
  uint32_t ends(uint32_t replica, uint32_t tensor) const {
    return 1 + tp_ * pp_ + tensor + tp_ * replica;
  }

  std::map<uint32_t, std::vector<uint32_t>> groups(bool with_ends) const {
    std::map<uint32_t, std::vector<uint32_t>> out;
    for (uint32_t tensor = 0; tensor < tp_; ++tensor) {
      for (uint32_t replica = 0; replica < dp_; ++replica) {
        for (uint32_t stage = 0; stage < pp_ && dp_ > 1; ++stage) {
          out[replicas(stage, tensor)].push_back(rank(stage, replica, tensor));
        }
        if (!with_ends) continue;
        out[ends(replica, tensor)] = {rank(0, replica, tensor), rank(pp_ - 1, replica, tensor)};
      }
    }
    return out;
  }

 private:
  uint32_t dp_, pp_, tp_;
};

TraceCollective collective_of(TrainingTransfer transfer) {
  switch (transfer) {
    case TrainingTransfer::kAllGather:
      return TraceCollective::kAllGather;
    case TrainingTransfer::kReduceScatter:
      return TraceCollective::kReduceScatter;
    default:
      return TraceCollective::kAllReduce;
  }
}

/// What a rank does in an operation of a family, as `role`.
void take_operation(const TrainingFamily& family, const FamilyOperation& what, uint32_t role,
                    const Numbers& numbers, uint32_t replica, uint32_t tensor, uint32_t dp,
                    TraceNode& node) {
  node.bytes = what.bytes;
  if (family.kind == Family::kMessages) {
    node.kind = role == 0 ? TraceNodeKind::kSend : TraceNodeKind::kReceive;
    node.name = role == 0 ? "send" : "receive";
    node.source = numbers.rank(family.stage, replica, tensor);
    node.destination = numbers.rank(family.to, replica, tensor);
    return;
  }
  node.kind = TraceNodeKind::kCollective;
  node.collective = collective_of(what.transfer);
  switch (family.kind) {
    case Family::kData:
      node.name = what.transfer == TrainingTransfer::kAllGather ? "weights" : "gradients";
      node.group = std::to_string(numbers.replicas(family.stage, tensor));
      if (what.transfer == TrainingTransfer::kAllGather) node.bytes = what.bytes / dp;
      break;
    case Family::kEnds:
      node.name = "tied embedding";
      node.group = std::to_string(numbers.ends(replica, tensor));
      break;
    default:
      node.name = "norm";
      break;
  }
}

class TraceMaker {
 public:
  TraceMaker(const IterationGraph& graph, const Parallel& parallel, TrainingRanks ranks)
      : graph_(graph), parallel_(parallel), numbers_(parallel, ranks) {
    const Workload& workload = graph.workload;
    places_.resize(workload.groups());
    for (uint32_t group = 0; group < workload.groups(); ++group) {
      places_[group].resize(workload.operations(group).size());
    }
    uint32_t tag = 0;
    for (uint32_t f = 0; f < graph.communicators.size(); ++f) {
      const CommunicatorFamily& family = graph.communicators[f];
      for (uint32_t role = 0; role < family.groups.size(); ++role) {
        const std::vector<uint32_t>& own = family.operations[role];
        for (uint32_t i = 0; i < own.size(); ++i) {
          places_[family.groups[role]][own[i]] = {f, role, i, tag + i};
        }
      }
      tag += static_cast<uint32_t>(graph.families[f].operations.size());
    }
  }

  Result<TraceJob> run() {
    TraceJob job;
    std::vector<std::vector<uint32_t>> of_stages(parallel_.pp);
    for (uint32_t node = 0; node < graph_.workload.nodes().size(); ++node) {
      of_stages[graph_.workload.nodes()[node].group].push_back(node);
    }
    const uint64_t all = graph_.workload.nodes().size() * parallel_.dp * numbers_.tensors();
    if (all > kMostTraceNodes) {
      return fail("all ranks together have " + std::to_string(all) + " nodes; at most " +
                  std::to_string(kMostTraceNodes) + " are written");
    }
    for (uint32_t stage = 0; stage < parallel_.pp; ++stage) {
      for (uint32_t replica = 0; replica < parallel_.dp; ++replica) {
        for (uint32_t tensor = 0; tensor < numbers_.tensors(); ++tensor) {
          auto graph = TraceGraph::make(rank_nodes(of_stages[stage], replica, tensor));
          ASSERT_INVARIANT(graph);
          job.ranks.push_back(std::make_shared<const TraceGraph>(*std::move(graph)));
        }
      }
    }
    const bool with_ends = std::ranges::any_of(
        graph_.families, [](const TrainingFamily& f) { return f.kind == Family::kEnds; });
    job.groups = numbers_.groups(with_ends);
    return job;
  }

 private:
  struct Place {
    uint32_t family = 0, role = 0, number = 0, tag = 0;
  };

  const Place& place_of(const WorkloadNode& node) const {
    return places_[node.group][node.operation];
  }

  bool left_out(const WorkloadNode& node, uint32_t replica) const {
    switch (node.kind) {
      case WorkloadNode::Kind::kStart:
        return true;
      case WorkloadNode::Kind::kCompute:
        return node.time(replica) == Duration();
      case WorkloadNode::Kind::kOperation:
        break;
    }
    return graph_.families[place_of(node).family].kind == Family::kNorm && numbers_.ranks() == 1;
  }

  std::vector<TraceNodeParents> rank_nodes(const std::vector<uint32_t>& nodes, uint32_t replica,
                                           uint32_t tensor) const {
    std::vector<TraceNodeParents> out;
    std::map<uint32_t, std::vector<uint64_t>> instead;  // of nodes that are left out
    for (const uint32_t number : nodes) {
      const WorkloadNode& node = graph_.workload.nodes()[number];
      std::vector<uint64_t> waits;
      for (const uint32_t former : graph_.waits[number]) {
        const auto found = instead.find(former);
        if (found == instead.end()) {
          waits.push_back(former);
        } else {
          waits.insert(waits.end(), found->second.begin(), found->second.end());
        }
      }
      if (left_out(node, replica)) {
        instead.emplace(number, std::move(waits));
        continue;
      }
      TraceNodeParents& made = out.emplace_back();
      made.node.id = number;
      made.data = std::move(waits);
      fill(node, graph_.marks[number], replica, tensor, made.node);
    }
    return out;
  }

  void fill(const WorkloadNode& node, const NodeMark& mark, uint32_t replica, uint32_t tensor,
            TraceNode& to) const {
    if (node.kind == WorkloadNode::Kind::kCompute) {
      const Duration time = node.time(replica);
      ASSERT_INVARIANT(time.ps() % 1000 == 0);
      to.set_duration_ns(static_cast<uint64_t>(time.ps() / 1000));
      to.name = computing_name(mark);
    } else {
      const Place& place = place_of(node);
      const TrainingFamily& family = graph_.families[place.family];
      take_operation(family, family.operations[place.number], place.role, numbers_, replica, tensor,
                     parallel_.dp, to);
      if (family.kind == Family::kMessages) to.tag = place.tag;
    }
    if (graph_.ends.size() > 1) to.name += ", iteration " + std::to_string(mark.iteration);
  }

  std::string computing_name(const NodeMark& mark) const {
    const auto of = [&](const char* what) {
      std::string name = std::string(what) + " of micro-batch " + std::to_string(mark.micro_batch);
      if (parallel_.chunks > 1) name += ", chunk " + std::to_string(mark.chunk);
      return name;
    };
    switch (mark.kind) {
      case NodeMark::Kind::kForward:
        return of("forward");
      case NodeMark::Kind::kBackward:
        return of("backward");
      case NodeMark::Kind::kWeightGradient:
        return of("weight gradient");
      default:
        return "optimizer";
    }
  }

  const IterationGraph& graph_;
  const Parallel& parallel_;
  const Numbers numbers_;
  std::vector<std::vector<Place>> places_;  ///< by group and operation
};

}  // namespace

IterationGraph in_whole_ns(const IterationGraph& graph) {
  IterationGraph out = graph;
  out.workload = Workload();
  for (uint32_t group = 0; group < graph.workload.groups(); ++group) {
    out.workload.add_group(graph.workload.ranks(group));
  }
  for (WorkloadNode node : graph.workload.nodes()) {
    for (Duration& time : node.times) time = whole_ns(time);
    out.workload.add(std::move(node));
  }
  for (NodeMark& mark : out.marks) mark.tensor = whole_ns(mark.tensor);
  for (uint32_t node = 0; node < out.waits.size(); ++node) {
    for (const uint32_t former : out.waits[node]) out.workload.order(former, node);
  }
  return out;
}

Result<TraceJob> training_trace(const IterationGraph& graph, const Parallel& parallel,
                                TrainingRanks ranks) {
  return TraceMaker(graph, parallel, ranks).run();
}

TraceJob lone_operation(const Parallel& parallel, TrainingRanks ranks, const TrainingFamily& family,
                        const FamilyOperation& operation) {
  const Numbers numbers(parallel, ranks);
  TraceJob job;
  job.groups = numbers.groups(parallel.pp > 1);
  const auto add = [&](const TraceNode& node) {
    auto graph = TraceGraph::make({{node, {}, {}}});
    job.ranks.push_back(std::make_shared<const TraceGraph>(*std::move(graph)));
  };
  for (uint32_t stage = 0; stage < parallel.pp; ++stage) {
    const bool first = stage == family.stage, second = stage == family.to;
    for (uint32_t replica = 0; replica < parallel.dp; ++replica) {
      for (uint32_t tensor = 0; tensor < numbers.tensors(); ++tensor) {
        TraceNode node;
        if (first || second || family.kind == Family::kNorm) {
          take_operation(family, operation, first ? 0 : 1, numbers, replica, tensor, parallel.dp,
                         node);
        }
        add(node);
      }
    }
  }
  return job;
}

}  // namespace understudy
