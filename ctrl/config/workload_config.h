// [workload]: execution traces that emulated nodes carry out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective_model/traces/trace_graph.h"
#include "ctrl/config/sender_config.h"
#include "dataplane/base/ids.h"

namespace understudy {

struct WorkloadConfig {
  /// As ctrl/traces/trace_files.h reads it: a prefix or one file. Paths as they are opened.
  std::string traces;
  std::optional<uint32_t> ranks;  ///< of one file for all; without: one for each GPU
  uint32_t passes = 1;            ///< of a text workload
  TraceRules rules = TraceRules::kStreams;
  std::optional<std::string> groups, system, memory;  ///< files of ASTRA-sim
  std::vector<uint32_t> dimensions;  ///< ranks of each that collectives name; none: they name none
  SenderConfig sender;               ///< of every GPU's messages
  /// Nodes whose GPUs compute so many times as long as others.
  std::vector<std::pair<NodeId, double>> slow;
  unsigned line = 0;
};

}  // namespace understudy
