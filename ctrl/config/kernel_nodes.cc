#include "ctrl/config/kernel_nodes.h"

#include <algorithm>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/port_of.h"

namespace understudy {
namespace {

std::string at(const Config& config, const NodeConfig& node) {
  return config.path + ":" + std::to_string(node.line) + ": node: \"" + node.name + "\" ";
}

}  // namespace

bool has_kernels(const Config& config) {
  return std::ranges::any_of(config.nodes,
                             [](const NodeConfig& node) { return node.kernel.has_value(); });
}

bool has_reference_ranks(const Config& config, const JobConfig& job) {
  return std::ranges::any_of(job.ranks, [&](NodeId node) {
    return config.nodes[node].real && !config.nodes[node].kernel;
  });
}

bool has_kernel_ranks(const Config& config, const JobConfig& job) {
  return std::ranges::any_of(job.ranks,
                             [&](NodeId node) { return config.nodes[node].kernel.has_value(); });
}

bool follows_programs(const Config& config, const JobConfig& job) {
  if (job.entry != EntryMode::kScheduled || job.operations != OperationsMode::kTold) return false;
  if (job.period > Duration()) return false;
  const bool kernels = has_kernel_ranks(config, job);
  const bool mixed = kernels && has_reference_ranks(config, job);
  if (job.entry_told) return job.join || !mixed;
  return !job.join && kernels && !mixed;
}

bool is_reference_beside_kernels(const Config& config, NodeId node) {
  const NodeConfig& n = config.nodes[node];
  return n.real && !n.kernel && has_kernels(config);
}

std::string kernel_without_port(const Config& config) {
  for (const NodeConfig& node : config.nodes) {
    if (!node.kernel) continue;
    for (size_t nic = 0; nic < node.nics.size(); ++nic) {
      if (port_of(config, node.index, nic)) continue;
      return at(config, node) + "is a kernel without a port for its NIC " + std::to_string(nic) +
             ": expected a [[port]] with real = \"" + node.name + "\"" +
             (nic == 0 ? "" : ", nic = " + std::to_string(nic)) + " and device = \"virtual\"";
    }
  }
  return "";
}

}  // namespace understudy
