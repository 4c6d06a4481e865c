// The emulated nodes' side of the data plane in a run, whatever its clock and whoever is real:
// their network, the jobs' plans, the shards behind the configuration's ports; changes of links,
// deadlocks, reports of ports. Without real nodes there is no shard, and the network is alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collective_model/workload/executor.h"
#include "ctrl/compile/scenario.h"
#include "ctrl/jobs/job_state.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/report/run_report.h"
#include "ctrl/shards/collect.h"
#include "ctrl/shards/shard_side.h"
#include "dataplane/base/result.h"
#include "dataplane/fabric/deadlock.h"

namespace understudy {

class Emulator {
 public:
  using Jobs = std::vector<std::unique_ptr<JobState>>;

  /// A port of the configuration: its shard, and which of the shard's ports it is.
  struct Port {
    ShardSide* side = nullptr;
    uint32_t number = 0;
    size_t shard = 0;  ///< place in sides()
    bool first() const { return number == 0; }
  };

  /// `scenario` outlives this. `recorded`: jobs without real ranks keep what timelines show.
  /// `progress` gets a line now and then while flows are prepared. Errors: as of begin_jobs().
  static Result<std::unique_ptr<Emulator>> create(const Scenario& scenario, bool recorded = false,
                                                  SharedNetwork::Said progress = {});

  const Scenario& scenario() const { return scenario_; }
  /// As Scenario::shards.
  const std::vector<std::unique_ptr<ShardSide>>& sides() const { return sides_; }
  /// Those of the configuration that take part.
  size_t ports() const { return ports_.size(); }
  const Port& port(size_t number) const { return ports_[number]; }
  /// Null: there is none.
  SharedNetwork* network() const { return network_.get(); }
  /// Its queues, wherever they are; null: there are none.
  const Network* queues() const;
  /// The jobs whose real ranks are, or are not, reference nodes; null for all others.
  Jobs take_jobs(bool reference);

  /// Makes it happen at its time, and notes it in the report. One that why_not() of the scenario has
  /// no word about.
  void change(const EventConfig& event, RunReport& report);
  /// All changes are known: flows that wait for a link that stays closed may give up. Before the
  /// shards run.
  void expect_no_more();
  /// Of the network's queues; null: there are none.
  DeadlockSearch* search() { return search_ ? &*search_ : nullptr; }
  /// Error: switches of the network have paused each other for ever, with their names. While nobody
  /// runs the shard.
  Result<void> find_no_deadlock();
  /// The same of flows that wait for links that stay closed: asked again and again, an error, with
  /// the links' names, once nothing has come anywhere in the meantime.
  Result<void> find_no_standstill(Time now);
  /// Of what look_at_flows() has said: whether a flow has given up that holds up the run. Traffic
  /// does so where flows.retries says it; a job's messages do.
  bool is_held_up(const FlowsLook& look) const;
  /// "t.toml: 1 of 2 flows never end: nothing comes through ...", of packets.
  std::string stuck_text(Time now) const;
  /// Once nothing runs: flows beside real nodes that have not ended. Error: which ones, and why.
  Result<void> find_none_stuck(Time now) const;
  /// Nothing happens any more. Error: flows alone on their network never end, and why.
  Result<void> find_nothing_left();

  // Once nothing runs any more.

  ShardSnapshot snapshot(size_t port, Time end) const;
  /// Counters of the network's links; empty: packets have none.
  std::vector<NetworkLinkCounters> links(Time end) const;
  /// All ports, the network's links and traffic, and how far to trust what they say. `device`: what the port itself has counted.
  void report(RunReport& report, Time end, const std::function<PortCounters(size_t)>& device) const;

 private:
  explicit Emulator(const Scenario& scenario) : scenario_(scenario), workload_(scenario.workload) {}
  Result<void> begin(bool recorded, SharedNetwork::Said progress);
  void make_shards();
  Result<void> look_for_deadlock();
  void expect(Time change);
  bool is_busy(const FlowTraffic& flows) const;
  uint32_t outage_of(const EventConfig& event);
  std::vector<OutageReport> outage_reports() const;
  uint64_t progress() const;

  const Scenario& scenario_;
  WorkloadExecutor workload_;
  std::unique_ptr<SharedNetwork> network_;
  Jobs jobs_;
  std::vector<std::unique_ptr<ShardSide>> sides_;
  std::vector<Port> ports_;
  std::optional<DeadlockSearch> search_;
  std::vector<EventConfig> changes_;
  struct Outage {
    std::string event;  ///< as it was typed
    std::optional<uint32_t> drill;
  };
  std::vector<Outage> outages_;  ///< by number
  Time last_change_;             ///< nothing is known to change later
  uint64_t progress_ = 0;        ///< when it was asked last ...
  unsigned still_ = 0;           ///< ... and how often it has been the same
};

}  // namespace understudy
