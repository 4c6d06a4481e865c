// What a replay did when, for a timeline: a group of each rank; of it tracks of computing, of the CPU, of
// communication with memory, and as many of receives as go on at once.
#pragma once

#include <vector>

#include "collective_model/traces/replay.h"
#include "ctrl/report/timeline.h"

namespace understudy {

struct ReplayTimeline {
  std::vector<TimelineTrack> tracks;
  /// From nodes to those that wait for them, by the settings' rules, and from sends to receives. Nodes that
  /// take no time have no slice and no arrows.
  std::vector<TimelineArrow> arrows;
};

/// `ranks` are those that replay() gave of both.
ReplayTimeline replay_timeline(const TraceJob& job, const std::vector<RankReplay>& ranks,
                               const ReplaySettings& settings);

}  // namespace understudy
