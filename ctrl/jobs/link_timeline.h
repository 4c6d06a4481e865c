// The timeline of a job beside a real node: its messages between real and emulated ranks.
#pragma once

#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/config.h"
#include "ctrl/report/timeline.h"
#include "dataplane/collective/collective_moments.h"

namespace understudy {

/// Appends, for every connection between a real and an emulated rank, a track of what messages
/// waited for and one of messages on their way: of those to the real rank until they were
/// acknowledged, of those from it from their credit until they had come.
void add_timeline(std::vector<TimelineTrack>& tracks, const Config& config, const JobConfig& job,
                  const CollectiveSetup& setup, const CollectiveMoments& moments);

}  // namespace understudy
