// What one operation of a job takes with all its ranks emulated and nothing else on the network, as
// flows with max-min fair rates.
#pragma once

#include <cstdint>
#include <optional>

#include "ctrl/config/config.h"
#include "ctrl/report/flow_report.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Mean and longest of the ranks' times for an operation of `bytes` that all enter at once, without
/// computing. Nothing if it has more than `most` messages. Errors: as build_rank_job() and
/// run_alone().
Result<std::optional<RankOperationReport>> time_by_rates(const Config& config, const JobConfig& job,
                                                         uint64_t bytes, const Topology& topology,
                                                         uint64_t most);

}  // namespace understudy
