// Times of a job's operations, followed as flows.
#pragma once

#include <cstdint>
#include <optional>

#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"

namespace understudy {

/// Operations of a job as flows.
class OperationFlows {
 public:
  /// Both outlive this. No topology: one switch between nodes.
  OperationFlows(const Config& config, const Topology* topology);
  /// Microseconds; nothing where that cannot be, or is too much.
  std::optional<double> time(const JobConfig& job, uint64_t bytes);

 private:
  const Config& config_;
  const Topology* topology_;
  std::optional<Topology> own_;  ///< the switch between nodes that have no [topology]
  bool possible_;
};

}  // namespace understudy
