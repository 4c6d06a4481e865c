// Flows that never end, named: which ones, and which links nothing came through.
#pragma once

#include <string>

#include "dataplane/fabric/network.h"
#include "dataplane/flows/flow_model.h"
#include "dataplane/flows/flow_traffic.h"

namespace understudy {

/// "nothing comes through leaf0 -> spine1: "far" from w1 to w6 gave up after 7 retries; ...", of
/// flows on `network`, whose clock is `now`. Says so where a routing that reacts would find another
/// way.
std::string why_stuck(const Graph& graph, const FlowTraffic& flows, const Network& network,
                      Time now);
/// The same of flows as rates.
std::string why_stuck(const Graph& graph, const FlowModel& flows);

}  // namespace understudy
