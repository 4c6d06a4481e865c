// What transfers get of a network when all of them go on, by max-min fairness.
#pragma once

#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/collective/packet_level_ranks.h"

namespace understudy {

struct SharedRate {
  double slowest = 0;  ///< bytes per us of the slowest one; 0: unlimited, or there are none
  Duration latency;    ///< the longest
};

/// The ways' paths are drawn as a run's, from their numbers.
SharedRate shared_rate(const Config& config, const Topology& topology, Routes& routes,
                       const std::vector<MessageWays::Way>& ways);

}  // namespace understudy
