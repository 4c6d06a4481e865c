#include "ctrl/config/kernel_nodes.h"

#include <algorithm>

namespace understudy {
namespace {

bool has_port(const Config& config, NodeId node, size_t nic) {
  return std::ranges::any_of(
      config.ports, [&](const PortConfig& port) { return port.node == node && port.nic == nic; });
}

std::string at(const Config& config, const NodeConfig& node) {
  return config.path + ":" + std::to_string(node.line) + ": node: \"" + node.name + "\" ";
}

}  // namespace

bool has_kernels(const Config& config) {
  return std::ranges::any_of(config.nodes,
                             [](const NodeConfig& node) { return node.kernel.has_value(); });
}

std::string why_no_kernels(const Config& config) {
  if (!has_kernels(config)) return "";
  for (const NodeConfig& node : config.nodes) {
    if (!node.real) continue;
    if (!node.kernel) {
      return at(config, node) +
             "has real = true: beside a node of kind \"kernel\" all real nodes are of that kind";
    }
    for (size_t nic = 0; nic < node.nics.size(); ++nic) {
      if (has_port(config, node.index, nic)) continue;
      return at(config, node) + "is a kernel without a port for its NIC " + std::to_string(nic) +
             ": expected a [[port]] with real = \"" + node.name + "\"" +
             (nic == 0 ? "" : ", nic = " + std::to_string(nic)) + " and device = \"virtual\"";
    }
  }
  for (const JobConfig& job : config.jobs) {
    const auto real =
        std::ranges::count_if(job.ranks, [&](NodeId node) { return config.nodes[node].real; });
    if (real > 1) {
      return config.path + ":" + std::to_string(job.line) + ": job: found " + std::to_string(real) +
             " kernels: emulated ranks play beside one. Ranks that are all kernels need no "
             "[[job]]: "
             "ring_node --rank, --ranks, --sizes";
    }
  }
  return "";
}

}  // namespace understudy
