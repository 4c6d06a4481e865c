// What a message between two GPUs of a node takes, by [intra_node].
#pragma once

#include <optional>

#include "collective_model/schedule/schedule.h"
#include "ctrl/config/config.h"

namespace understudy {

/// Over gpu_link twice, up to the NVSwitch and down; without one, over pcie twice. Nothing where
/// the inside of nodes is not modelled.
inline std::optional<NodeWay> node_way(const Config& config) {
  if (!config.intra_node) return std::nullopt;
  const std::optional<LinkConfig>& link =
      config.intra_node->gpu_link ? config.intra_node->gpu_link : config.intra_node->pcie;
  if (!link) return std::nullopt;
  return NodeWay{link->rate, link->latency * 2};
}

}  // namespace understudy
