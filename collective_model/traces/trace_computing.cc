#include "collective_model/traces/trace_computing.h"

#include <algorithm>
#include <cmath>

#include "collective_model/traces/trace_rings.h"

namespace understudy {

bool TraceComputing::is_computed(const TraceNode& node) const {
  if (system_.replay || node.kind == TraceNodeKind::kCompute) return true;
  if (rules_ == TraceRules::kFeeder3) return false;
  if (in_streams(rules_) && node.kind == TraceNodeKind::kMetadata) return true;
  return node.on_cpu && node.kind != TraceNodeKind::kMemoryLoad &&
         node.kind != TraceNodeKind::kMemoryStore;
}

bool TraceComputing::is_skipped(const TraceNode& node) const {
  if (system_.replay || !is_computed(node)) return false;
  if (rules_ != TraceRules::kFeeder3) return node.duration_ns() == 0 && node.operations == 0;
  return system_.roofline && !node.on_cpu && node.tensor_bytes == 0;
}

bool TraceComputing::by_roofline(const TraceNode& node) const {
  if (!system_.roofline || system_.replay) return false;
  if (rules_ == TraceRules::kFeeder1) return true;
  if (node.on_cpu) return false;
  return rules_ == TraceRules::kFeeder3 || (node.operations > 0 && node.tensor_bytes > 0);
}

std::optional<int64_t> TraceComputing::takes(const TraceNode& node) const {
  if (!by_roofline(node)) return recorded(node);
  const auto operations = static_cast<double>(node.operations);
  const double intensity = operations / static_cast<double>(node.tensor_bytes);
  const double rate = std::min(system_.memory_gb_s * 1e9 * intensity, system_.peak_tflops * 1e12);
  const double takes = std::floor(operations / rate * 1e9);
  if (!(takes < kLongestTraceNs)) return std::nullopt;
  return static_cast<int64_t>(takes);
}

}  // namespace understudy
