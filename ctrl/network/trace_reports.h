// What execution traces came to on a network.
#pragma once

#include <vector>

#include "ctrl/compile/traces/trace_job.h"
#include "ctrl/report/timeline.h"
#include "ctrl/report/workload/trace_report.h"

namespace understudy {

TraceReport trace_report(const Config& config, const TraceOnNetwork& traces);
/// Tracks of every rank: CPU, computing, memory, each communicator. Nothing of traces whose nodes' times
/// are not kept.
void add_trace_timeline(std::vector<TimelineTrack>& tracks, const Config& config,
                        const TraceOnNetwork& traces);

}  // namespace understudy
