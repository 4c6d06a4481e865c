// A training job of the configuration, compiled as far as no network is needed: which GPU is which
// rank, what each stage computes, and the graph of its iterations.
#pragma once

#include <vector>

#include "collective_model/training/iteration_graph.h"
#include "ctrl/compile/gpus/gpu_places.h"
#include "ctrl/config/config.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Ranks fill the nodes in the configuration's order, GPU by GPU: rank tensor + tp * (replica +
/// replicas * stage).
class TrainingPlaces {
 public:
  TrainingPlaces() = default;
  TrainingPlaces(const Parallel& parallel, uint32_t gpus)
      : tp_(parallel.tp), replicas_(parallel.replicas()), gpus_(gpus) {}
  GpuPlace place(uint32_t stage, uint32_t replica, uint32_t tensor) const {
    const uint64_t rank = tensor + tp_ * (replica + uint64_t{replicas_} * stage);
    return {static_cast<NodeId>(rank / gpus_), static_cast<uint32_t>(rank % gpus_)};
  }
  /// Of a stage and replica, whose GPUs share a node.
  NodeId node(uint32_t stage, uint32_t replica) const { return place(stage, replica, 0).node; }
  uint32_t gpus_per_node() const { return gpus_; }
  /// Replicas of a stage that share each of its nodes.
  uint32_t together() const { return std::min(replicas_, gpus_ / tp_); }
  bool one_node(uint32_t stage, uint32_t replica, uint32_t other_stage, uint32_t other) const {
    return node(stage, replica) == node(other_stage, other);
  }

 private:
  uint32_t tp_ = 1, replicas_ = 1, gpus_ = 1;
};

struct TrainingPlan {
  TrainingPlaces places;
  IterationTimes times;
  IterationGraph graph;
};

/// As plan_training(), with [operations] in place of nodes; each GPU group of a stage and replica is a node of
/// its own, which has no name.
Result<TrainingPlan> plan_without_nodes(const Config& config);

/// `config` has a [model]. Errors, with their lines: what such a job needs and the configuration does
/// not say, and what cannot be carried out yet.
Result<TrainingPlan> plan_training(const Config& config);

}  // namespace understudy
