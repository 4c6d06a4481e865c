// The ways of flows through a topology, by its routing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/flows/flow_model.h"

namespace understudy {

/// Of packets: prepares flows without a path for the topology's routing (Topology::next_hops()).
/// They get what switches hash, or, where a static route is given, its path (or several, when
/// packets are sprayed). `prepared` hears of the number of flows so far, now and then; it may
/// be empty. Error: a flow whose ends are not joined.
Result<void> route_flows(const Topology& topology, uint64_t seed, std::vector<FlowSpec>& flows,
                         const std::function<void(size_t)>& prepared = {});

/// The path that packets of such a flow take if they are not sprayed and nothing changes, and that
/// of its acknowledgements.
std::vector<LinkId> path_of(Routes& routes, const FlowSpec& flow);
std::vector<LinkId> path_back_of(Routes& routes, const FlowSpec& flow);

/// Of rates: who sends, and which way; flows without a path take that of the topology's routing.
/// Error: a flow whose ends are not joined.
Result<FlowSenders> flow_senders(const Config& config, const Topology& topology,
                                 const std::vector<FlowSpec>& flows);

}  // namespace understudy
