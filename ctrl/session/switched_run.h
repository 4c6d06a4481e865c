// The network with switches of a run with a real node: what control builds, keeps and reports of
// it, and the [[traffic]] that shares its links.
#pragma once

#include <memory>
#include <string>

#include "ctrl/build/topology.h"
#include "ctrl/build/traffic.h"
#include "ctrl/config/config.h"
#include "ctrl/report/flow_report.h"
#include "dataplane/base/result.h"
#include "dataplane/engine/shard.h"
#include "dataplane/fabric/flow_load.h"
#include "dataplane/node/flow_traffic.h"

namespace understudy {

/// Whether the configuration has anything between its nodes' links: [topology], [queues] or
/// [[traffic]]. Without, a path is the two links of its ends.
bool is_switched(const Config& config);

/// What of the configuration cannot go with such a network and a real node, with file and line;
/// empty if nothing, or if one of both is not there.
std::string why_not_switched(const Config& config);

class SwitchedRun {
 public:
  /// Errors name file and line: what cannot be wired, traffic without a path, what such a network
  /// cannot do.
  static Result<std::unique_ptr<SwitchedRun>> create(const Config& config);

  const Topology& topology() const { return topology_; }
  /// Gives the shard of `port`, whose nodes are there already, its network. Stays its owner.
  void enter(ShardConfig& shard, const PortConfig& port);

  const std::vector<FlowSpec>& flows() const { return flows_.flows; }
  /// What carries the flows: packet by packet, as rates, or neither where there are none.
  FlowTraffic* packets() const { return packets_.get(); }
  const FlowModel* rates() const { return rates_.get(); }
  /// While nothing runs any more: links, and what became of the flows by `end`.
  TrafficReport report(const ShardSnapshot& snapshot, Time end) const;

 private:
  SwitchedRun(const Config& config, Topology topology)
      : config_(config), topology_(std::move(topology)) {}

  Result<void> add_traffic();

  const Config& config_;
  Topology topology_;
  Traffic flows_;
  // One of them, or none without [[traffic]]: packet by packet, or as rates.
  std::unique_ptr<FlowTraffic> packets_;
  FlowSenders senders_;
  std::unique_ptr<FlowModel> rates_;
  std::unique_ptr<FlowLoad> load_;
};

}  // namespace understudy
