// The network with switches of a run with a real node: what control builds, keeps and reports of
// it, and the [[traffic]] that shares its links.
#pragma once

#include <memory>
#include <string>

#include "ctrl/build/collective.h"
#include "ctrl/build/topology.h"
#include "ctrl/build/traffic.h"
#include "ctrl/config/config.h"
#include "ctrl/report/flow_report.h"
#include "dataplane/base/result.h"
#include "dataplane/engine/shard.h"
#include "dataplane/fabric/flow_load.h"
#include "dataplane/node/flow_traffic.h"

namespace understudy {

/// Whether the configuration has anything between its nodes' links: [topology], [queues],
/// [[traffic]], or a job with inner = "packets". Without, a path is the two links of its ends.
bool is_switched(const Config& config);

/// What of the configuration cannot go with such a network and a real node, with file and line;
/// empty if nothing, or if one of both is not there.
std::string why_not_switched(const Config& config);
/// The same of a run in real time.
std::string why_not_switched_live(const Config& config);

/// Whether the job's messages between emulated ranks go through the network packet by packet: as it
/// says, else in virtual time if the network's own fidelity is that.
bool carries_inner(const Config& config, const JobConfig& job, bool virtual_time);
/// The configuration for a run in virtual time without switches: connections of a rank share its
/// NIC evenly all the time in rings only, so the messages of other jobs go packet by packet, over
/// one switch, unless the job says otherwise or such a network cannot be.
Config with_inner_packets(const Config& config);
/// Why they cannot although a job says so, with file and line; empty if none does.
std::string why_not_carried(const Config& config);

class SwitchedRun {
 public:
  /// Errors name file and line: what cannot be wired, traffic without a path, what such a network
  /// cannot do.
  static Result<std::unique_ptr<SwitchedRun>> create(const Config& config);

  const Topology& topology() const { return topology_; }
  /// Before enter(): what the job's emulated ranks say to one another takes the network, if its
  /// setup was made so. `setup` outlives this. Error: there is no path.
  Result<void> carry(const JobConfig& job, const CollectiveSetup& setup);
  /// For real_time_budget.h: what one operation of each such job sends there, the largest one.
  std::vector<std::vector<FlowSpec>> inner_loads() const;
  /// Gives a shard, whose nodes are there already, its network. Stays its owner.
  void enter(ShardConfig& shard);

  /// Those of [[traffic]].
  const std::vector<FlowSpec>& flows() const { return named_; }
  /// What carries the flows: packet by packet, as rates, or neither where there are none.
  FlowTraffic* packets() const { return packets_.get(); }
  const FlowModel* rates() const { return rates_.get(); }
  /// While nothing runs any more: links, and what became of the flows by `end`.
  TrafficReport report(const ShardSnapshot& snapshot, Time end) const;

 private:
  struct Carried {
    std::string job;
    const CollectiveSetup* setup = nullptr;
    uint32_t first = 0, end = 0;  ///< flows
  };

  SwitchedRun(const Config& config, Topology topology)
      : config_(config), topology_(std::move(topology)) {}

  Result<void> add_traffic();
  InnerMessagesReport inner_report(const Carried& carried) const;
  Result<void> route();
  void make_packets();

  const Config& config_;
  Topology topology_;
  Traffic flows_;  ///< and, behind them, those of jobs
  std::vector<FlowSpec> named_;
  std::vector<Carried> carried_;
  // One of them, or none without [[traffic]]: packet by packet, or as rates.
  std::unique_ptr<FlowTraffic> packets_;
  FlowSenders senders_;
  std::unique_ptr<FlowModel> rates_;
  std::unique_ptr<FlowLoad> load_;
};

}  // namespace understudy
