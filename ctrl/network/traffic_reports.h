// What flows and links came to, put into a report.
#pragma once

#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/report/flow_report.h"
#include "ctrl/topology/topology.h"
#include "ctrl/traffic/traffic.h"
#include "dataplane/fabric/network.h"
#include "dataplane/flows/flow_model.h"
#include "dataplane/flows/flow_traffic.h"

namespace understudy {

/// A link that carried so much while the run lasted `whole`.
TrafficLinkReport link_report(const Graph& graph, LinkId link, uint64_t wire_bytes, Duration whole);
/// All that carried or paused anything, with the counters of every mechanism. `storms`: by link;
/// empty: there were none.
std::vector<TrafficLinkReport> link_reports(const Graph& graph,
                                            const std::vector<NetworkLinkCounters>& links,
                                            const std::vector<StormCounters>& storms,
                                            Duration whole);

/// What groups and flows took; those that have not ended have no times.
void report_flows(TrafficReport& report, const Config& config, const Topology& topology,
                  const Traffic& traffic, const std::vector<FlowTimes>& times);
/// The same of flows that were carried packet by packet.
void report_packets(TrafficReport& report, const Config& config, const Topology& topology,
                    const Traffic& traffic, const std::vector<FlowResult>& results);

}  // namespace understudy
