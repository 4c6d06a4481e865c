// Tracks of what emulated ranks did: for each connection over the network what its messages waited
// for, and when they were on their way.
#pragma once

#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/report/timeline.h"
#include "dataplane/collective/wait_cause.h"

namespace understudy {

/// As timelines call it.
const char* waited_for(WaitCause cause);

/// Of the network's jobs all of whose ranks are emulated; they have been recorded.
void add_timeline(std::vector<TimelineTrack>& tracks, const Config& config,
                  const SharedNetwork& network);

}  // namespace understudy
