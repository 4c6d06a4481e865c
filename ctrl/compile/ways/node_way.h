// What a message between two GPUs of a node takes, by [intra_node].
#pragma once

#include <cmath>
#include <optional>

#include "collective_model/schedule/schedule.h"
#include "collective_model/tuner/tuning_constants.h"
#include "ctrl/config/config.h"

namespace understudy {

/// Over gpu_link twice, up to the NVSwitch and down; without one, over pcie twice. Nothing where
/// the inside of nodes is not modelled.
inline std::optional<NodeWay> node_way(const Config& config) {
  if (!config.intra_node) return std::nullopt;
  const std::optional<LinkConfig>& link =
      config.intra_node->gpu_link ? config.intra_node->gpu_link : config.intra_node->pcie;
  if (!link) return std::nullopt;
  NodeWay way{link->rate, link->latency * 2};
  if (config.nccl && config.nccl->system.nvls) {
    way.switch_percent =
        static_cast<uint32_t>(std::lround(nvls_efficiency(config.nccl->system.gpu) * 100));
  }
  return way;
}

}  // namespace understudy
