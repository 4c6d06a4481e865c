// What an iteration's time is made of, from its end backwards: each moment is spent by whoever was waited
// for last. To make the iteration shorter one of these has to become shorter.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/training/iteration_graph.h"
#include "collective_model/training/iteration_parts.h"
#include "collective_model/workload/communicators.h"

namespace understudy {

/// Of the last iteration that is over on all replicas; the longest stretches first. Empty: there is none.
/// Together they are its time.
std::vector<CriticalStretch> critical_path(const IterationGraph& graph,
                                           const WorkloadCommunicators& done);

}  // namespace understudy
