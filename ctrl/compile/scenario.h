// A configuration, compiled for a run: topology, plans, settings of shards, and all changes that are
// known before it begins. Neither the configuration nor this changes while it runs.
#pragma once

#include <memory>
#include <vector>

#include "collective_model/workload/workload.h"
#include "ctrl/compile/capabilities.h"
#include "ctrl/compile/collective.h"
#include "ctrl/compile/shard_config.h"
#include "ctrl/compile/traces/trace_plan.h"
#include "ctrl/compile/training/training_plan.h"
#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"

namespace understudy {

/// What a [[job]] is in a run.
struct ScenarioJob {
  bool reference = false;   ///< its real ranks are reference nodes, all of them
  bool scheduled = false;   ///< emulated ranks enter by themselves, not with a first credit
  bool emulated = false;    ///< it has no real rank
  bool by_packets = false;  ///< what emulated ranks say to each other crosses the network
  bool plan_holds = true;   ///< otherwise its plan has other times for that (inner_way.h)
  std::shared_ptr<const CollectiveSetup> setup = nullptr;  ///< its plan; null if it is emulated
};

/// The emulated nodes behind ports whose packets may meet.
struct ScenarioShard {
  PortList ports;
  ShardConfig config;  ///< but for the flows on its network, which are the run's
};

struct Scenario {
  const Config& config;  ///< outlives this
  RunClock clock = RunClock::kVirtual;
  /// Real nodes take part, each behind a port; without, flows are alone on the network.
  bool real_side = false;
  /// What is between the nodes' links, as first configured; null: a path is the two links of its
  /// ends.
  std::shared_ptr<const Topology> topology = nullptr;
  size_t ports = 0;                    ///< of the configuration: all, or none without real nodes
  std::vector<ScenarioJob> jobs = {};  ///< as Config::jobs
  std::vector<EventConfig> changes;    ///< [[event]] and the caller's commands, in order of time
  std::vector<EventConfig> held = {};  ///< those of drills that wait for a job's operations
  /// Of a [model]; null: there is none.
  std::shared_ptr<const TrainingPlan> training = nullptr;
  std::shared_ptr<const TracePlan> traces = nullptr;  ///< of a [workload]
  /// What the jobs carry out, job j as group j. Empty in real time, where real nodes' programs say
  /// when ranks enter.
  Workload workload = {};
  /// In virtual time one as soon as packets of several ports may meet, in a network or in a job; in
  /// real time as live_shards().
  std::vector<ScenarioShard> shards = {};
};

/// Why this clock's command has nothing to do with it; empty if it has.
std::string nothing_to_run(const Config& config, RunClock clock);

/// Errors, with file and line, are those of a run: what the table of capabilities says no to, jobs
/// that have no plan, a network that cannot be wired, in real time also what this machine is too
/// slow for (real_time.h). Left to the run, as functions of the scenario, is what takes seconds of
/// thousands of ranks: the flows of [[traffic]] and of emulated jobs, which may be too many
/// (build_traffic(), build_rank_job()), and the modelled times of operations (modelled_times()).
Result<Scenario> compile_scenario(const Asked& asked, RunClock clock,
                                  const std::vector<EventConfig>& commands = {});

}  // namespace understudy
