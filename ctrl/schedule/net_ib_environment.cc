#include "ctrl/schedule/net_ib_environment.h"

#include <cstdlib>

namespace understudy {

NetIbEnvironment net_ib_environment(const Config& config) {
  NetIbEnvironment out;
  if (!config.nccl) return out;
  for (const EnvironmentVariable& variable : config.nccl->environment) {
    // Its value was checked when the configuration was read.
    const auto value = static_cast<uint32_t>(std::strtoul(variable.value.c_str(), nullptr, 10));
    if (variable.name == "NCCL_IB_QPS_PER_CONNECTION") out.queue_pairs = value;
    if (variable.name == "NCCL_IB_SPLIT_DATA_ON_QPS") out.split_data = value != 0;
  }
  return out;
}

}  // namespace understudy
