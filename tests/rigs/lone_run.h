// Flows alone on a network, run to their end: packet by packet, and as rates.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ctrl/compile/shard_config.h"
#include "ctrl/network/lone_packets.h"
#include "ctrl/network/lone_rates.h"
#include "ctrl/traffic/flow_routes.h"
#include "dataplane/base/try.h"

namespace understudy {

struct PacketRun {
  std::vector<FlowResult> flows;           ///< as the flows that were given
  std::vector<NetworkLinkCounters> links;  ///< by link of the graph
  uint64_t packets = 0;                    ///< that came to their NICs
};

/// Error: as run_alone().
inline Result<PacketRun> run_packets(const Config& config, const Graph& graph, NextHops routing,
                                     const std::vector<FlowSpec>& flows,
                                     const std::vector<FlowJob*>& jobs = {}) {
  FlowTraffic traffic(graph, flows, config.queues.flows, flow_controls(config));
  LonePackets alone(graph, std::move(routing), network_settings(config), flows, traffic, jobs);
  TRY(run_alone(alone, graph, config.path));
  PacketRun run{traffic.results(), {}, alone.network()->delivered()};
  for (LinkId link = 0; link < graph.links().size(); ++link) {
    run.links.push_back(alone.network()->counters_at(link, alone.end()));
  }
  return run;
}

struct RatesRun {
  std::vector<FlowTimes> flows;      ///< as the flows that were given
  std::vector<uint64_t> link_bytes;  ///< on the wire, by link of the graph
  uint64_t filled = 0;               ///< rates that were worked out
  Time end;
};

/// Error: as run_alone() and flow_senders().
inline Result<RatesRun> run_flows(const Config& config, const Topology& topology,
                                  const std::vector<FlowSpec>& flows,
                                  const std::vector<FlowJob*>& jobs = {}) {
  const FlowSenders senders = TRY(flow_senders(config, topology, flows));
  FlowModel model(topology.graph, flows, senders, config.queues.flows,
                  config.queues.network.cut_through);
  LoneRates alone(model, jobs);
  TRY(run_alone(alone, topology.graph, config.path));
  return RatesRun{model.times(), model.link_bytes(), model.rates().filled(), alone.end()};
}

}  // namespace understudy
