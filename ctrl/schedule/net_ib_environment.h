// What NCCL is told of its network connections.
#pragma once

#include <cstdint>
#include <optional>

#include "ctrl/config/config.h"

namespace understudy {

struct NetIbEnvironment {
  uint32_t queue_pairs = 1;        ///< NCCL_IB_QPS_PER_CONNECTION
  std::optional<bool> split_data;  ///< NCCL_IB_SPLIT_DATA_ON_QPS; else the release's default
};

/// Of [nccl] environment.
NetIbEnvironment net_ib_environment(const Config& config);

}  // namespace understudy
