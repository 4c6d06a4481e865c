// Traces of the configuration, read and compiled as far as no network is needed: which GPU is which rank,
// and which ranks talk to each other.
#pragma once

#include <memory>
#include <optional>

#include "collective_model/traces/trace_run.h"
#include "ctrl/compile/gpus/gpu_places.h"
#include "ctrl/config/config.h"
#include "dataplane/base/result.h"

namespace understudy {

struct TracePlan {
  TraceJob job;
  TraceRunSettings settings;
  TraceOrders orders;
  std::optional<TraceCommunicators> found;  ///< of plan_traces(): there are some
  uint32_t gpus_per_node = 1;

  const TraceCommunicators& communicators() const { return *found; }
  /// Ranks fill the nodes in the configuration's order, GPU by GPU.
  GpuPlace place(uint32_t rank) const {
    return {static_cast<NodeId>(rank / gpus_per_node), rank % gpus_per_node};
  }
  uint32_t nodes() const {
    return static_cast<uint32_t>((job.ranks.size() + gpus_per_node - 1) / gpus_per_node);
  }
};

/// `config` has a [workload]. Reads its files. Errors name them, or the configuration's line: traces that
/// cannot be carried out, or not on these nodes.
Result<std::shared_ptr<const TracePlan>> plan_traces(const Config& config);

}  // namespace understudy
