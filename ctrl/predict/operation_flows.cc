#include "ctrl/predict/operation_flows.h"

#include <utility>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/network_wanted.h"
#include "ctrl/network/rate_times.h"
#include "ctrl/predict/prediction.h"

namespace understudy {

OperationFlows::OperationFlows(const Config& config, const Topology* topology)
    : config_(config),
      topology_(topology),
      possible_(!config.calibration && can_have_network(config) &&
                !(config.topology && config.topology->routing == RoutingMode::kSpray)) {}

std::optional<double> OperationFlows::time(const JobConfig& job, uint64_t bytes) {
  if (!possible_ || job.group || job.nccl.minor < NcclVersion::kOldest ||
      job_rank_count(config_, job) > kMostFlowRanks) {
    return std::nullopt;
  }
  if (topology_ == nullptr) {
    auto built = build_topology(config_);
    if (!built) return std::nullopt;
    topology_ = &own_.emplace(std::move(*built));
  }
  const auto took = time_by_rates(config_, job, bytes, *topology_, kMostFlowMessages);
  if (!took || !*took) return std::nullopt;
  return (*took)->mean.microseconds();
}

}  // namespace understudy
