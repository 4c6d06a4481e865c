// Traffic through the emulated network packet by packet, in virtual time, without a real node.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ctrl/build/topology.h"
#include "ctrl/config/config.h"
#include "ctrl/session/traffic_series.h"
#include "dataplane/base/result.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/network.h"
#include "dataplane/node/flow_traffic.h"
#include "dataplane/node/rank_traffic.h"

namespace understudy {

struct PacketRun {
  std::vector<FlowResult> flows;           ///< as the flows that were given
  std::vector<NetworkLinkCounters> links;  ///< by link of the graph
  std::vector<uint64_t> buffer_peaks;      ///< bytes, by vertex
  uint64_t events = 0;
  uint64_t packets = 0;  ///< that came to their NICs, acknowledgements included
  size_t memory_bytes = 0;
  Time end;  ///< of the last event
};

/// Gives flows without a path one (or several, when packets are sprayed) by the topology's routing.
/// Error: a flow whose ends are not joined.
Result<void> route_flows(const Topology& topology, uint64_t seed, std::vector<FlowSpec>& flows);

/// The congestion control of each flow, and what switches do, as the configuration says; it must
/// outlive the first.
FlowTraffic::MakeControl flow_controls(const Config& config);
NetworkSettings network_settings(const Config& config, const std::vector<FlowSpec>& flows);

/// Runs until every flow has ended, or none can go on; those of `jobs` are held by them. `progress`
/// gets a line now and then; it may be empty. `series`, if there is one, gets its samples.
/// `changes` of links are in order of time. Error: flows that never end; with the cycle of paused
/// links if it is a deadlock.
Result<PacketRun> run_packets(const Config& config, const Graph& graph,
                              const std::vector<FlowSpec>& flows,
                              const std::function<void(const std::string&)>& progress,
                              TrafficSeries* series = nullptr,
                              const std::vector<RateChange>& changes = {},
                              const std::vector<RankTraffic*>& jobs = {});

}  // namespace understudy
