// The state of a run's network, whose topology is the scenario's: the flows on its links, those of
// [[traffic]] and of jobs, and what is reported of both. A shard has it, or, without real nodes,
// nobody.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ctrl/compile/rank_job.h"
#include "ctrl/compile/traces/trace_job.h"
#include "ctrl/compile/training/training_job.h"
#include "ctrl/config/config.h"
#include "ctrl/network/lone_flows.h"
#include "ctrl/report/flow_report.h"
#include "ctrl/topology/topology.h"
#include "ctrl/traffic/traffic.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/inner_messages.h"
#include "dataplane/engine/shard.h"
#include "dataplane/flows/flow_load.h"
#include "dataplane/flows/flow_traffic.h"

namespace understudy {

class SharedNetwork {
 public:
  /// Errors name file and line: traffic without a path. Both outlive this; `topology` is the
  /// configuration's. `alone`: no shard is going to have it. `progress` gets a line now and then
  /// while flows are prepared; it may be empty.
  using Said = std::function<void(const std::string&)>;
  static Result<std::unique_ptr<SharedNetwork>> create(const Config& config,
                                                       const Topology& topology, bool alone,
                                                       Said progress = {});

  const Topology& topology() const { return topology_; }

  // Before enter() or stand_alone():

  /// What the job's emulated ranks say to one another takes the network, by `carrier`, which
  /// outlives this; null: it takes times. Error: there is no path.
  Result<void> carry(const JobConfig& job, InnerMessages* carrier);
  /// A job all of whose ranks are emulated, a group of `workload`: each message is a flow.
  /// `recorded`: its ranks keep the moments of each. Of one that is alone. Errors: as
  /// build_rank_job().
  Result<void> carry(const JobConfig& job, WorkloadExecutor& workload, uint32_t group,
                     bool recorded);

  /// A training job, of one that is alone. Errors: as build_training_job().
  Result<void> carry(const TrainingPlan& plan);
  /// Traces, the same. Errors: as build_traces().
  Result<void> carry(std::shared_ptr<const TracePlan> plan);

  /// Gives the flows to a shard, which has the topology as its network. Stays their owner.
  void enter(ShardConfig& shard);
  /// Instead, of one that is alone. Error: there is no path.
  Result<void> stand_alone();
  /// Null: a shard has it.
  LoneFlows* alone() const { return alone_.get(); }

  /// Those of [[traffic]].
  const std::vector<FlowSpec>& flows() const { return named_; }
  /// These, and behind them those of jobs.
  std::span<const FlowSpec> all_flows() const { return flows_.flows; }
  /// What carries the flows: packet by packet, as rates, or neither where there are none.
  FlowTraffic* packets() const { return packets_.get(); }
  const FlowModel* rates() const { return rates_.get(); }

  /// A job that carry() made of `job`, all of whose ranks are emulated; with its flows by number.
  struct EmulatedJob {
    const JobConfig* config = nullptr;
    RankJob job;
  };
  const std::vector<EmulatedJob>& emulated_jobs() const { return emulated_; }
  /// Null: there is none.
  const TrainingJob* training() const { return training_.get(); }
  const TraceOnNetwork* traces() const { return traces_.get(); }

  // While nothing runs any more:

  /// The counters of its links at `end`, by link, as the shard's snapshot has them, or its own.
  std::vector<NetworkLinkCounters> own_links(Time end) const;
  /// Links, and what became of the flows by `end`. `links`: their counters; empty where packets
  /// have none. `storms`: as Network::storms_at().
  TrafficReport report(std::vector<NetworkLinkCounters> links,
                       const std::vector<StormCounters>& storms, Time end) const;

 private:
  struct Carried {
    std::string job;
    InnerMessages* carrier = nullptr;
    uint32_t first = 0, end = 0;  ///< flows
  };

  SharedNetwork(const Config& config, const Topology& topology, Said progress)
      : config_(config), topology_(topology), progress_(std::move(progress)) {}

  bool as_rates() const { return config_.fabric.fidelity == FabricFidelity::kFlow; }
  Result<void> add_traffic();
  InnerMessagesReport inner_report(const Carried& carried) const;
  Result<void> route();
  void make_carrier();
  NamedCounts work(const std::vector<NetworkLinkCounters>& links) const;

  const Config& config_;
  const Topology& topology_;
  const Said progress_;
  Traffic flows_;  ///< and, behind them, those of jobs
  std::vector<FlowSpec> named_;
  uint32_t connections_ = 0;  ///< of all flows
  std::vector<Carried> carried_;
  std::vector<EmulatedJob> emulated_;
  std::unique_ptr<TrainingJob> training_;
  std::unique_ptr<TraceOnNetwork> traces_;
  // One of them, or none without flows: packet by packet, or as rates.
  std::unique_ptr<FlowTraffic> packets_;
  FlowSenders senders_;
  std::unique_ptr<FlowModel> rates_;
  std::unique_ptr<FlowLoad> load_;  ///< of rates, on a shard's network
  std::unique_ptr<LoneFlows> alone_;
};

}  // namespace understudy
