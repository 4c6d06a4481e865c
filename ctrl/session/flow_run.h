// Traffic through the emulated network as flows with max-min fair rates, in virtual time, without a
// real node.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ctrl/build/topology.h"
#include "ctrl/config/config.h"
#include "ctrl/session/traffic_series.h"
#include "dataplane/base/result.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/flow_model.h"

namespace understudy {

struct FlowRun {
  std::vector<FlowTimes> flows;      ///< as the flows that were given
  std::vector<uint64_t> link_bytes;  ///< on the wire, by link of the graph
  uint64_t events = 0;               ///< flows that began and left
  uint64_t filled = 0;               ///< senders whose rate was worked out anew, in all
  Time end;                          ///< when the last flow came in
};

/// Who sends, and which way: flows without a path take that of the topology's routing. Error: a
/// flow whose ends are not joined, packets that are sprayed.
Result<FlowSenders> flow_senders(const Config& config, const Topology& topology,
                                 const std::vector<FlowSpec>& flows);

/// Runs until every flow has come in. Queues, priorities, losses on links and congestion control
/// play no part; outages and [[event]] do. Flows without a path take that of the topology's
/// routing. `progress` gets a line now and then; it may be empty. `series`, if there
/// is one, gets its samples. Error: a flow whose ends are not
/// joined, packets that are sprayed, flows that never end.
Result<FlowRun> run_flows(const Config& config, const Topology& topology,
                          const std::vector<FlowSpec>& flows,
                          const std::function<void(const std::string&)>& progress,
                          TrafficSeries* series = nullptr);

}  // namespace understudy
