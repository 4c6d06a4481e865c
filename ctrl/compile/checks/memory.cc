#include "ctrl/compile/checks/memory.h"

#include <algorithm>
#include <string>

#include "ctrl/report/text.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

/// Of one job. A node's ranks each have a result of their own.
uint64_t results(const Config& config, const JobConfig& job) {
  if (job.payload != PayloadMode::kExact || job.sizes.empty()) return 0;
  uint64_t ranks = 0;
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    if (node.real && !node.kernel) ranks += job.gpus.value_or(node.gpus);
  }
  return ranks * *std::ranges::max_element(job.sizes);
}

std::string gibibytes(uint64_t bytes) {
  return format_text("%.1f GiB", static_cast<double>(bytes) / static_cast<double>(1u << 30));
}

}  // namespace

uint64_t bytes_of_results(const Config& config) {
  uint64_t bytes = 0;
  for (const JobConfig& job : config.jobs) bytes += results(config, job);
  return bytes;
}

Result<void> check_memory(const Config& config, const MemoryLeft& left) {
  const uint64_t needed = bytes_of_results(config);
  if (needed <= left.bytes) return {};
  const auto largest = std::ranges::max_element(
      config.jobs, {}, [&](const JobConfig& job) { return results(config, job); });
  return fail(config.path + ":" + std::to_string(largest->line) +
              ": job.payload: exact results of operations of " +
              size_text(*std::ranges::max_element(largest->sizes)) + " need " + gibibytes(needed) +
              " of memory, and " + left.of + " has " + gibibytes(left.bytes) +
              " left: take smaller sizes, or payload = \"synthetic\"");
}

}  // namespace understudy
