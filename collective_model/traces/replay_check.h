// What can be said of traces before they are carried out.
#pragma once

#include "collective_model/traces/replay.h"
#include "collective_model/traces/trace_rings.h"

namespace understudy {

/// Whether all nodes can be carried out, receives have their sends and sends their receives, and ranks
/// of a group the same collectives. Leaves the rings in `rings`. An error names rank and node.
Result<void> check_replay(const TraceJob& job, const ReplaySettings& settings, TraceRings& rings);

/// Whether every message of the job, which check_replay() found right, takes one link only, which no
/// rank but its sender uses.
bool links_of_one_rank(const TraceJob& job, const ReplaySettings& settings, TraceRings& rings);

}  // namespace understudy
