#include "ctrl/compile/gpus/gpu_places.h"

namespace understudy {

uint32_t nic_number(const Config& config, const GpuPlace& at) {
  const NodeConfig& node = config.nodes[at.node];
  return static_cast<uint32_t>(at.gpu * node.nics.size() / node.gpus);
}

VertexId nic_of(const Config& config, const Topology& topology, const GpuPlace& gpu) {
  return topology.nics[gpu.node][nic_number(config, gpu)];
}

Result<void> check_equal_nodes(const Config& config, uint64_t needed, const std::string& job) {
  const NodeConfig& first = config.nodes.front();
  for (uint64_t i = 0; i < needed; ++i) {
    const NodeConfig& node = config.nodes[i];
    const std::string at =
        config.path + ":" + std::to_string(node.line) + ": node: \"" + node.name + "\" ";
    if (node.real) return fail(at + "is real: " + job + " is carried out by emulated nodes only");
    if (node.gpus == first.gpus && node.nics.size() == first.nics.size()) continue;
    return fail(at + "has " + std::to_string(node.gpus) + " GPUs and " +
                std::to_string(node.nics.size()) + " NICs, the first one " +
                std::to_string(first.gpus) + " and " + std::to_string(first.nics.size()) + ": " +
                job + " needs equal nodes");
  }
  return {};
}

}  // namespace understudy
