// What nodes of traces take that cross no network: computations, and what counts as one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "collective_model/traces/trace_graph.h"
#include "collective_model/traces/trace_system.h"

namespace understudy {

class TraceComputing {
 public:
  /// `system` outlives this.
  TraceComputing(TraceRules rules, const TraceSystem& system) : rules_(rules), system_(system) {}

  /// A computation, or what is carried out as one: with `replay` everything, by the first feeder's
  /// rules and those of streams whatever but memory is on the CPU.
  bool is_computed(const TraceNode& node) const;
  /// Nothing is to be done, and by these rules it takes no time.
  bool is_skipped(const TraceNode& node) const;
  /// In ns, of what is_computed(): what was recorded, or with `roofline` operations / min(memory
  /// bandwidth * operations / bytes, peak) (astra-sim/workload/Workload.cc, system/Roofline.cc).
  /// Nothing: the roofline has no time for it.
  std::optional<int64_t> takes(const TraceNode& node) const;
  /// What was recorded, at least 1 ns.
  static int64_t recorded(const TraceNode& node) {
    return std::max<int64_t>(static_cast<int64_t>(node.duration_ns()), 1);
  }

 private:
  bool by_roofline(const TraceNode& node) const;

  const TraceRules rules_;
  const TraceSystem& system_;
};

}  // namespace understudy
