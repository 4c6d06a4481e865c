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
  /// `families` outlives this.
  Numbers(const Parallel& parallel, TrainingRanks ranks,
          const std::vector<TrainingFamily>& families)
      : families_(families),
        replicas_(parallel.replicas()),
        pp_(parallel.pp),
        tp_(ranks == TrainingRanks::kGpus ? parallel.tp : 1) {
    // Of replicas first, then those of the tied embedding.
    uint32_t next = 1;
    for (const bool replicas : {true, false}) {
      for (const TrainingFamily& family : families) {
        const bool named = replicas ? family.of_replicas() : family.kind == Family::kEnds;
        if (!named || family.members < 2 || family.operations.empty()) continue;
        first_[&family] = next;
        next += tp_ * (replicas ? replicas_ / family.members : replicas_);
      }
    }
  }

  uint32_t tensors() const { return tp_; }
  uint32_t ranks() const { return tp_ * replicas_ * pp_; }
  uint32_t rank(uint32_t stage, uint32_t replica, uint32_t tensor) const {
    return tensor + tp_ * (replica + replicas_ * stage);
  }
  /// Number of the communicator of a family that the replica is in, with others of its tensor rank.
  uint32_t group(const TrainingFamily& family, uint32_t replica, uint32_t tensor) const {
    uint32_t part = replica;
    if (family.of_replicas()) {
      part = replica % family.stride + replica / (family.stride * family.members) * family.stride;
    }
    return first_.at(&family) + tensor + tp_ * part;
  }

  std::map<uint32_t, std::vector<uint32_t>> groups() const {
    std::map<uint32_t, std::vector<uint32_t>> out;
    for (const TrainingFamily& family : families_) {
      if (!first_.contains(&family)) continue;
      for (uint32_t replica = 0; replica < replicas_; ++replica) {
        for (uint32_t tensor = 0; tensor < tp_; ++tensor) {
          std::vector<uint32_t>& ranks = out[group(family, replica, tensor)];
          ranks.push_back(rank(family.stage, replica, tensor));
          if (family.kind == Family::kEnds) ranks.push_back(rank(family.to, replica, tensor));
        }
      }
    }
    return out;
  }

 private:
  const std::vector<TrainingFamily>& families_;
  uint32_t replicas_, pp_, tp_;
  std::map<const TrainingFamily*, uint32_t> first_;
};

TraceCollective collective_of(TrainingTransfer transfer) {
  switch (transfer) {
    case TrainingTransfer::kAllGather:
      return TraceCollective::kAllGather;
    case TrainingTransfer::kReduceScatter:
      return TraceCollective::kReduceScatter;
    case TrainingTransfer::kAllToAll:
      return TraceCollective::kAllToAll;
    default:
      return TraceCollective::kAllReduce;
  }
}

std::string name_of(const TrainingFamily& family, TrainingTransfer transfer) {
  const char* const what = transfer == TrainingTransfer::kAllGather ? "weights" : "gradients";
  switch (family.kind) {
    case Family::kData:
      return what;
    case Family::kExpertData:
      return std::string(what) + " of experts";
    case Family::kExperts:
      return "tokens of experts";
    case Family::kContext:
      return "keys and values";
    case Family::kEnds:
      return "tied embedding";
    default:
      return "norm";
  }
}

/// What a rank does in an operation of a family, as `role`.
void take_operation(const TrainingFamily& family, const FamilyOperation& what, uint32_t role,
                    const Numbers& numbers, uint32_t replica, uint32_t tensor, TraceNode& node) {
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
  node.name = name_of(family, what.transfer);
  if (what.transfer == TrainingTransfer::kAllGather) node.bytes = what.bytes / family.members;
  if (family.kind != Family::kNorm) {
    node.group = std::to_string(numbers.group(family, replica, tensor));
  }
}

class TraceMaker {
 public:
  TraceMaker(const IterationGraph& graph, const Parallel& parallel, TrainingRanks ranks)
      : graph_(graph), parallel_(parallel), numbers_(parallel, ranks, graph.families) {
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
    const uint64_t all = graph_.workload.nodes().size() * parallel_.replicas() * numbers_.tensors();
    if (all > kMostTraceNodes) {
      return fail("all ranks together have " + std::to_string(all) + " nodes; at most " +
                  std::to_string(kMostTraceNodes) + " are written");
    }
    for (uint32_t stage = 0; stage < parallel_.pp; ++stage) {
      for (uint32_t replica = 0; replica < parallel_.replicas(); ++replica) {
        for (uint32_t tensor = 0; tensor < numbers_.tensors(); ++tensor) {
          auto graph = TraceGraph::make(rank_nodes(of_stages[stage], replica, tensor));
          ASSERT_INVARIANT(graph);
          job.ranks.push_back(std::make_shared<const TraceGraph>(*std::move(graph)));
        }
      }
    }
    job.groups = numbers_.groups();
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
                     to);
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

TraceJob lone_operation(const Parallel& parallel, TrainingRanks ranks,
                        const std::vector<TrainingFamily>& families, size_t number,
                        const FamilyOperation& operation) {
  const TrainingFamily& family = families[number];
  const Numbers numbers(parallel, ranks, families);
  TraceJob job;
  job.groups = numbers.groups();
  const auto add = [&](const TraceNode& node) {
    auto graph = TraceGraph::make({{node, {}, {}}});
    job.ranks.push_back(std::make_shared<const TraceGraph>(*std::move(graph)));
  };
  for (uint32_t stage = 0; stage < parallel.pp; ++stage) {
    const bool first = stage == family.stage, second = stage == family.to;
    for (uint32_t replica = 0; replica < parallel.replicas(); ++replica) {
      for (uint32_t tensor = 0; tensor < numbers.tensors(); ++tensor) {
        TraceNode node;
        if (first || second || family.kind == Family::kNorm) {
          take_operation(family, operation, first ? 0 : 1, numbers, replica, tensor, node);
        }
        add(node);
      }
    }
  }
  return job;
}

}  // namespace understudy
