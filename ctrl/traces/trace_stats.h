// What traces contain: `understudy workload stats`.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "collective_model/traces/trace_system.h"

namespace understudy {

struct TraceStats {
  struct Amount {
    uint64_t count = 0, bytes = 0;
  };
  uint64_t nodes = 0, data_edges = 0, control_edges = 0;
  uint64_t dangling_data = 0, dangling_control = 0;  ///< of them: to nodes that are not there
  uint64_t on_cpu = 0;
  uint64_t compute_us = 0, cpu_us = 0;  ///< recorded, of computations: not on the CPU, on it
  std::array<uint64_t, kTraceNodeKinds> kinds{};  ///< by TraceNodeKind
  /// Not on the CPU; those there are calls of the ones here.
  std::array<Amount, kTraceCollectives> collectives{};
  Amount sends;
};

TraceStats stats_of(const TraceGraph& graph);

/// Of all ranks together, and of each where they differ.
std::string stats_text(const TraceJob& job);
/// Schema "understudy-trace-stats/1".
std::string stats_json(const TraceJob& job);

}  // namespace understudy
