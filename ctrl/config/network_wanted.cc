#include "ctrl/config/network_wanted.h"

#include <algorithm>

namespace understudy {

bool asks_for_network(const Config& config) {
  return config.topology.has_value() || config.queues.given || !config.traffic.empty() ||
         std::ranges::any_of(config.jobs,
                             [](const JobConfig& job) { return job.inner == InnerMode::kPackets; });
}

bool has_unlimited_link(const Config& config) {
  return std::ranges::any_of(config.nodes, [](const NodeConfig& node) {
    return std::ranges::any_of(node.nics,
                               [](const NicConfig& nic) { return nic.link_rate.is_unlimited(); });
  });
}

bool can_have_network(const Config& config) {
  return config.fabric.pacing && config.fabric.control_class != ControlClass::kSeparate &&
         !has_unlimited_link(config);
}

bool can_carry(const Config& config, const JobConfig& job) {
  return config.fabric.fidelity == FabricFidelity::kPacket &&
         job.operations != OperationsMode::kInferred;
}

}  // namespace understudy
