// What a host trace contains: `understudy workload stats`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collective_model/traces/trace_graph.h"
#include "ctrl/traces/pytorch/host_trace.h"

namespace understudy {

struct HostStats {
  struct Amount {
    uint64_t count = 0, bytes = 0;
  };
  uint64_t nodes = 0;
  uint64_t calls = 0;  ///< edges: nodes with a caller
  std::array<uint64_t, kHostNodeKinds> kinds{};
  std::map<std::string, uint64_t> names;  ///< nodes by name
  uint64_t input_tensors = 0, output_tensors = 0;
  /// Communications, each once, however many nodes speak of it.
  std::array<Amount, kTraceCollectives> collectives{};
  Amount sends, receives;
  std::vector<uint64_t> buckets;  ///< bytes of all-reduces of gradients, in order
};

HostStats stats_of(const HostTrace& trace);

std::string stats_text(const HostTrace& trace);
/// Schema "understudy-host-trace-stats/1".
std::string stats_json(const HostTrace& trace);

}  // namespace understudy
