#include "ctrl/compile/scenario.h"

#include <algorithm>
#include <numeric>

#include "ctrl/compile/checks/failover_check.h"
#include "ctrl/compile/checks/kernel_files.h"
#include "ctrl/compile/checks/real_time.h"
#include "ctrl/compile/drills.h"
#include "ctrl/compile/events.h"
#include "ctrl/compile/job_workload.h"
#include "ctrl/compile/ways/inner_way.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/network_wanted.h"
#include "ctrl/host_namespace/host_namespace.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Where no network is wanted such jobs have one switch, even where their plan holds.
bool is_uneven(const JobConfig& job) {
  return job.algorithm != Algorithm::kRing || is_p2p(job.collective);
}

/// Plans of jobs that NCCL joins on kernels may be made again, for the channels of its search.
bool may_plan_again(const JobConfig& job, bool reference) { return job.join && !reference; }

/// Beyond what the table says: of nodes and jobs one by one.
Result<void> check(const Asked& asked, RunClock clock) {
  const Config& config = asked.config;
  if (const std::string why = why_not(asked, clock); !why.empty()) return fail(why);
  if (const std::string why = kernel_without_port(config); !why.empty()) return fail(why);
  if (clock == RunClock::kVirtual) {
    if (const std::string why = missing_kernel_file(config); !why.empty()) return fail(why);
  }
  return {};
}

Result<void> check_events(const Scenario& scenario) {
  for (const auto* events : {&scenario.changes, &scenario.held}) {
    for (const EventConfig& event : *events) {
      if (const std::string why = why_not(scenario, event); !why.empty()) return fail(why);
    }
  }
  return {};
}

Result<void> check_routing(const Scenario& scenario) {
  const Config& config = scenario.config;
  const bool flows =
      !config.traffic.empty() || scenario.training != nullptr || scenario.traces != nullptr ||
      std::ranges::any_of(scenario.jobs, [](const auto& job) { return job.emulated; });
  const bool sprayed =
      scenario.topology != nullptr && scenario.topology->choice == RouteChoice::kSpray;
  if (config.fabric.fidelity != FabricFidelity::kFlow || !flows || !sprayed) return {};
  return fail(config.path +
              ": topology.routing = \"spray\" is a matter of packets: it needs fabric.fidelity = "
              "\"packet\"");
}

/// The job's packets cross several ports.
bool crosses_ports(const CollectiveSetup& setup) {
  const auto& links = setup.job.links;
  return setup.job.real.size() > setup.communicator.gpus ||
         std::ranges::any_of(links, [&](const CollectiveConnection& link) {
           return link.real_nic != links.front().real_nic || link.far_nic != link.real_nic;
         });
}

bool ports_meet(const Scenario& scenario) {
  const auto merged = [](const JobConfig& job) { return job.merged_nics > 1; };
  return scenario.topology != nullptr || std::ranges::any_of(scenario.config.jobs, merged) ||
         std::ranges::any_of(scenario.jobs, [](const ScenarioJob& job) {
           return job.setup != nullptr && crosses_ports(*job.setup);
         });
}

std::vector<PortList> shard_groups(const Scenario& scenario) {
  if (scenario.clock == RunClock::kReal) {
    return live_shards(scenario.config, scenario.topology != nullptr);
  }
  if (scenario.ports == 0) return {};
  PortList all(scenario.ports);
  std::iota(all.begin(), all.end(), size_t{0});
  // One control serves all sockets of kernels.
  if (has_kernels(scenario.config) || ports_meet(scenario)) return {all};
  std::vector<PortList> groups;
  for (const size_t port : all) groups.push_back({port});
  return groups;
}

std::vector<ScenarioShard> shards_of(const Scenario& scenario) {
  const bool has_host = scenario.clock == RunClock::kReal || has_kernels(scenario.config);
  std::vector<ScenarioShard> shards;
  for (PortList& ports : shard_groups(scenario)) {
    ShardConfig config =
        emulator_shard(scenario.config, ports, has_host ? kHostNamespaceMac : MacAddress{},
                       scenario.topology.get());
    shards.push_back({std::move(ports), std::move(config)});
  }
  return shards;
}

/// More connections between emulated ranks than any machine carries in real time at rates worth it;
/// each takes some 20 KiB of memory.
constexpr uint64_t kMostInRealTime = 4096;

/// What each job is, and whether a switch is what makes one's times right.
bool add_jobs(Scenario& scenario) {
  const Config& config = scenario.config;
  const bool is_virtual = scenario.clock == RunClock::kVirtual;
  bool wants_switch = false;
  std::vector<bool> may;
  for (const JobConfig& job : config.jobs) {
    // A kernel's program is told of its job by TCP, which is the emulated side's.
    const bool reference =
        is_virtual && has_reference_ranks(config, job) && !has_kernel_ranks(config, job);
    const bool again = may_plan_again(job, reference);
    ScenarioJob& made = scenario.jobs.emplace_back(
        ScenarioJob{.reference = reference,
                    .scheduled = is_virtual && job.entry == EntryMode::kScheduled && !again &&
                                 (reference || !follows_programs(config, job)),
                    .emulated = !scenario.real_side});
    may.push_back(!made.emulated && may_go_by_packets(config, job));
    if (made.emulated) continue;
    const InnerNeed need = inner_need(config, job);
    made.plan_holds = need.plan_holds;
    if (!is_virtual && !job.inner && need.connections > kMostInRealTime) may.back() = false;
    const bool open = !need.plan_holds ||
                      (is_virtual && (asks_for_network(config) || (!again && is_uneven(job))));
    made.by_packets =
        may.back() &&
        job.inner.value_or(open ? InnerMode::kPackets : InnerMode::kTimes) == InnerMode::kPackets;
    wants_switch = wants_switch || made.by_packets;
  }
  // What meets on that switch does so packet by packet.
  const bool all = wants_switch && (is_virtual || !asks_for_network(config));
  for (size_t j = 0; j < scenario.jobs.size(); ++j) {
    if (all && may[j] && !config.jobs[j].inner) scenario.jobs[j].by_packets = true;
  }
  return wants_switch;
}

Result<void> build_network(Scenario& scenario) {
  auto built = build_topology(scenario.config);
  if (!built) return fail(describe(built.error()));
  scenario.topology = std::make_shared<const Topology>(std::move(*built));
  return {};
}

Result<void> plan_jobs(Scenario& scenario) {
  const Config& config = scenario.config;
  for (size_t j = 0; j < scenario.jobs.size(); ++j) {
    const JobConfig& job = config.jobs[j];
    ScenarioJob& made = scenario.jobs[j];
    if (made.emulated) continue;
    auto setup = TRY(
        build_collective(config, job, made.scheduled, scenario.topology.get(), made.by_packets));
    setup->plan_holds = made.plan_holds;
    made.setup = std::move(setup);
  }
  return {};
}

/// Takes back what this machine cannot carry in real time and nobody has asked for by name. False:
/// there is none.
bool take_times(Scenario& scenario) {
  bool any = false;
  for (size_t j = 0; j < scenario.jobs.size(); ++j) {
    if (scenario.config.jobs[j].inner || !scenario.jobs[j].by_packets) continue;
    scenario.jobs[j].by_packets = false;
    any = true;
  }
  if (any && !asks_for_network(scenario.config)) scenario.topology.reset();
  return any;
}

Result<void> plan_what_fits(Scenario& scenario) {
  TRY(plan_jobs(scenario));
  if (auto fits = check_real_time(scenario); fits || !take_times(scenario)) return fits;
  TRY(plan_jobs(scenario));
  return check_real_time(scenario);
}

}  // namespace

std::string nothing_to_run(const Config& config, RunClock clock) {
  if (clock == RunClock::kReal && config.ports.empty()) {
    return config.path + ": run needs at least one [[port]]";
  }
  if (clock == RunClock::kVirtual && config.jobs.empty() && config.traffic.empty() &&
      !config.training && !config.workload && !has_kernels(config)) {
    return config.path +
           ": simulate needs at least one [[job]], [[traffic]], [model] or [workload]";
  }
  return {};
}

Result<Scenario> compile_scenario(const Asked& asked, RunClock clock,
                                  const std::vector<EventConfig>& commands) {
  TRY(check(asked, clock));
  const Config& config = asked.config;
  std::shared_ptr<const TrainingPlan> training;
  if (config.training) training = std::make_shared<const TrainingPlan>(TRY(plan_training(config)));
  std::shared_ptr<const TracePlan> traces;
  if (config.workload) traces = TRY(plan_traces(config));
  const bool is_virtual = clock == RunClock::kVirtual;
  const bool real = !is_virtual || real_sides(config, clock).front() != RealSide::kNone;
  Scenario scenario{.config = config,
                    .clock = clock,
                    .real_side = real,
                    .ports = real ? config.ports.size() : 0,
                    .changes = {},
                    .training = std::move(training),
                    .traces = std::move(traces)};
  for (const EventConfig& event : config.events) {
    const bool held = event.drill && config.drills[*event.drill].after;
    (held ? scenario.held : scenario.changes).push_back(event);
  }
  const bool wants_switch = add_jobs(scenario);
  if (!real || asks_for_network(config) || wants_switch) TRY(build_network(scenario));
  scenario.changes.insert(scenario.changes.end(), commands.begin(), commands.end());
  std::ranges::stable_sort(scenario.changes, {}, &EventConfig::at);
  TRY(check_events(scenario));
  TRY(check_drills(scenario));
  TRY(check_failover(scenario));
  if (is_virtual) scenario.workload = job_workload(config);
  TRY(check_routing(scenario));
  // The last one: of what has no other error `topo` can be asked.
  if (std::string why = nothing_to_run(config, clock); !why.empty()) return fail(std::move(why));
  TRY(plan_what_fits(scenario));
  scenario.shards = shards_of(scenario);
  return scenario;
}

}  // namespace understudy
