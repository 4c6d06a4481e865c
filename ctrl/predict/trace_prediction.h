// What execution traces take, by closed forms: every operation at the rate that is left when all
// communicators with the same operations are at work.
#pragma once

#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/report/validity_line.h"
#include "ctrl/report/workload/trace_report.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"

namespace understudy {

struct TracePrediction {
  TraceReport report;
  /// Of the time until all have finished, how long operations that do not know of each other are on their
  /// way by one NIC, the one where it is longest.
  double contended = 0;
};

/// `config` has a [workload]. Errors: as plan_traces(), and what NCCL would not carry out.
Result<TracePrediction> predict_traces(const Config& config, const Topology& topology);
std::vector<ValidityLine> trace_validity(const Config& config, const Topology& topology,
                                         const TracePrediction& prediction);
std::string trace_prediction_json(const Config& config, const TraceReport& report,
                                  const std::vector<ValidityLine>& validity);

}  // namespace understudy
