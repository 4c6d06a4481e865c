// Whether this machine can carry [[traffic]], and what emulated ranks say to one another, packet by
// packet in real time, beside a real node.
#pragma once

#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

/// What the network model has to do for these flows, in events a second: two for each link that a
/// packet or an acknowledgement crosses, over the shortest time in which the links could carry all
/// of them. A real run takes no less time, so no more than this on average.
double needed_events_per_second(const Config& config, const Topology& topology,
                                const std::vector<FlowSpec>& flows);

/// What this machine does of them on one core: measured, which takes some tens of milliseconds.
double measured_events_per_second();

/// Error with both figures if `flows`, those of [[traffic]], and what jobs carry between emulated
/// ranks need more than half of what this machine does; the other half is for the real node's own
/// packets. `inner`: of each such job the messages of one operation.
Result<void> fits_real_time(const Config& config, const Topology& topology,
                            const std::vector<FlowSpec>& flows,
                            const std::vector<std::vector<FlowSpec>>& inner = {});

}  // namespace understudy
