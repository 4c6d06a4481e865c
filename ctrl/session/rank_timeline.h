// Tracks of what emulated ranks did: for each connection over the network what its messages waited
// for, and when they were on their way.
#pragma once

#include <vector>

#include "ctrl/build/rank_job.h"
#include "ctrl/config/config.h"
#include "ctrl/report/timeline.h"
#include "dataplane/node/flow_traffic.h"
#include "dataplane/node/wait_cause.h"

namespace understudy {

/// As timelines call it.
const char* waited_for(WaitCause cause);

/// Of a job that has been recorded; `flows` is what became of all flows.
void add_timeline(std::vector<TimelineTrack>& tracks, const Config& config, const JobConfig& job,
                  const RankJob& made, const std::vector<FlowResult>& flows);

}  // namespace understudy
