// What ASTRA-sim's own files say beside the network: its system file, memory beyond the devices, and
// groups of ranks. Plain values; ctrl/traces reads the files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collective_model/traces/trace_graph.h"

namespace understudy {

/// Defaults are those of astra-sim/system/Sys.cc (tag tutorial-micro2024).
struct TraceSystem {
  int64_t endpoint_ns = 10;  ///< before a chunk's first message, and after each step
  uint64_t splits = 0;       ///< into how many chunks a collective is cut; 0: not said
  double memory_gb_s = 0;    ///< of the device's memory, in 1e9 bytes a second; 0: not said
  double peak_tflops = 0;
  /// An all-reduce over several dimensions scatters on the way out and gathers on the way back
  /// ("localBWAware"), not whole all-reduces in each ("baseline").
  bool reduces_by_parts = false;
  bool roofline = false;  ///< computations take what their operations and bytes need
  bool replay = false;    ///< every node takes what was recorded
  /// Algorithm of each dimension, by collective; none: not said.
  std::map<TraceCollective, std::vector<std::string>> algorithms;
};

/// Memory beyond the device (astra-sim/astra-memory-analytical).
struct TraceMemory {
  enum class Kind : uint8_t {
    kNone,     ///< there is none
    kPerRank,  ///< every rank for itself
    kPerNode,  ///< one transfer in a node at a time, first come first served
    kPool,     ///< one transfer at a time
  };
  Kind kind = Kind::kNone;
  int64_t latency_ns = 0;
  double bytes_per_ns = 0;
  uint32_t nodes = 0, ranks_per_node = 0;  ///< kPerNode
};

/// What all ranks do.
struct TraceJob {
  std::vector<std::shared_ptr<const TraceGraph>> ranks;
  /// Ids of a rank are those of its graph and so much more for each rank before it (traces that were
  /// made from one text for all ranks).
  uint64_t id_step = 0;
  /// Ranks of communicators by their numbers, each in the order of its ring.
  std::map<uint32_t, std::vector<uint32_t>> groups;
  /// Ranks of each dimension that nodes' `dimensions` name, beside a network that has none of its own:
  /// rank d0 + D0 (d1 + D1 ...).
  std::vector<uint32_t> dimensions = {};
  /// What the files say and the graphs do not: sentences.
  std::vector<std::string> notes = {};
};

}  // namespace understudy
