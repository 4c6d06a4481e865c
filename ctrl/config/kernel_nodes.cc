#include "ctrl/config/kernel_nodes.h"

#include <algorithm>

#include "ctrl/config/port_of.h"

namespace understudy {
namespace {

std::string at(const Config& config, const NodeConfig& node) {
  return config.path + ":" + std::to_string(node.line) + ": node: \"" + node.name + "\" ";
}

std::string why_not_job(const Config& config, const JobConfig& job) {
  const auto kernels = static_cast<size_t>(std::ranges::count_if(
      job.ranks, [&](NodeId node) { return config.nodes[node].kernel.has_value(); }));
  const std::string found = "found " + std::to_string(kernels) + " kernels";
  if (kernels != 0 && has_reference_ranks(config, job)) {
    return "found ranks on kernels and on nodes with real = true: what such a node says takes no "
           "TCP, by which a kernel's program is told of its neighbours. Both kinds go with "
           "emulated ranks, in jobs of their own";
  }
  if (kernels < 2) return "";
  if (kernels == job.ranks.size()) {
    return found +
           " and no emulated rank: kernels alone need no [[job]]: ring_node --rank, "
           "--ranks, --sizes";
  }
  if (job.join) return found + ": NCCL's communicators take one beside emulated ranks";
  return "";
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

std::string why_no_kernels(const Config& config) {
  if (!has_kernels(config)) return "";
  for (const NodeConfig& node : config.nodes) {
    if (!node.kernel) continue;
    for (size_t nic = 0; nic < node.nics.size(); ++nic) {
      if (port_of(config, node.index, nic)) continue;
      return at(config, node) + "is a kernel without a port for its NIC " + std::to_string(nic) +
             ": expected a [[port]] with real = \"" + node.name + "\"" +
             (nic == 0 ? "" : ", nic = " + std::to_string(nic)) + " and device = \"virtual\"";
    }
  }
  for (const JobConfig& job : config.jobs) {
    if (const std::string why = why_not_job(config, job); !why.empty()) {
      return config.path + ":" + std::to_string(job.line) + ": job: " + why;
    }
  }
  return "";
}

}  // namespace understudy
