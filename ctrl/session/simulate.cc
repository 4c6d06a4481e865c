#include "ctrl/session/simulate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "ctrl/build/collective.h"
#include "ctrl/build/rail.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/port_of.h"
#include "ctrl/report/collect.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/deadlock.h"
#include "ctrl/session/kernel_run.h"
#include "ctrl/session/reference_job.h"
#include "ctrl/session/reference_nodes.h"
#include "ctrl/session/sampled_run.h"
#include "ctrl/session/start_report.h"
#include "ctrl/session/switched_run.h"
#include "ctrl/session/traffic_run.h"
#include "dataplane/app/simulation.h"

namespace understudy {
namespace {

/// One port: its shard and the reference node's, and which of their ports it is.
struct Pair {
  ShardSide* emulator = nullptr;
  ReferenceNodes::Port reference;
  uint32_t emulator_port = 0;
};

/// Whether packets of several ports meet: in a network, or because a job has several.
bool share_a_shard(const Config& config,
                   const std::vector<std::unique_ptr<CollectiveSetup>>& setups, bool switched) {
  const auto merged = [](const JobConfig& job) { return job.merged_nics > 1; };
  if (config.ports.size() > 1 && std::ranges::any_of(config.jobs, merged)) return true;
  const auto several = [](const std::unique_ptr<CollectiveSetup>& setup) {
    const auto& links = setup->job.links;
    return setup->job.real.size() > setup->communicator.gpus ||
           std::ranges::any_of(links, [&](const CollectiveLink& link) {
             return link.real_nic != links.front().real_nic || link.far_nic != link.real_nic;
           });
  };
  return config.ports.size() > 1 && (switched || std::ranges::any_of(setups, several));
}

/// All shards of a run.
class Sides {
 public:
  Sides(const Config& config, bool together, SwitchedRun* switched)
      : reference_(config, together), pairs_(config.ports.size()) {
    PortList all(config.ports.size());
    std::iota(all.begin(), all.end(), size_t{0});
    for (const size_t port : all) {
      pairs_[port].reference = reference_.behind(port);
      if (pairs_[port].emulator != nullptr) continue;
      const PortList ports = together ? all : PortList{port};
      ShardConfig shard = emulator_shard(config, ports, MacAddress{});
      if (switched != nullptr) switched->enter(shard);
      emulators_.push_back(std::make_unique<ShardSide>(shard));
      const std::vector<uint32_t> numbers = port_numbers(config, ports);
      for (size_t i = 0; i < ports.size(); ++i) {
        pairs_[ports[i]].emulator = emulators_.back().get();
        pairs_[ports[i]].emulator_port = numbers[i];
      }
    }
  }

  const std::vector<Pair>& pairs() const { return pairs_; }
  const ReferenceNodes& reference() const { return reference_; }
  /// Of a NIC of a real node, which has a port.
  NicSides of(const Config& config, NodeId node, uint32_t nic) const {
    const Pair& pair = pairs_[*port_of(config, node, nic)];
    return {&pair.emulator->control, &pair.reference.side->control};
  }

 private:
  ReferenceNodes reference_;
  std::vector<std::unique_ptr<ShardSide>> emulators_;
  std::vector<Pair> pairs_;  ///< by port of the configuration
};

/// All operations are done, or have failed, and so are the flows beside them.
bool over(const std::vector<std::unique_ptr<ReferenceJob>>& jobs, const SwitchedRun& switched) {
  if (switched.packets() != nullptr && !switched.packets()->all_finished()) return false;
  if (switched.rates() != nullptr && switched.rates()->finished() < switched.flows().size()) {
    return false;
  }
  return std::ranges::all_of(jobs, [](const auto& job) { return job->over(); });
}

}  // namespace

Result<RunReport> simulate(const Config& given, const SimulateOptions& options) {
  if (has_kernels(given)) return run_kernels(given, options);
  const Config config = with_inner_packets(given);
  const bool anything = !config.jobs.empty() || !config.traffic.empty();
  if (anything && (config.jobs.empty() || all_emulated(config))) {
    Config changed = config;
    changed.events = all_events(config, options.commands);
    return run_traffic(changed, options.progress, options.series, options.timeline);
  }
  if (config.jobs.empty()) {
    return fail(config.path + ": simulate needs at least one [[job]] or [[traffic]]");
  }
  if (const std::string why = why_not_carried(config); !why.empty()) return fail(why);
  std::unique_ptr<SwitchedRun> switched;
  if (is_switched(config)) {
    auto made = SwitchedRun::create(config);
    if (!made) return fail(made.error().text);
    switched = std::move(*made);
  }
  std::vector<std::unique_ptr<CollectiveSetup>> setups;
  for (const JobConfig& job : config.jobs) {
    auto setup = ReferenceJob::plan(config, job, switched.get());
    if (!setup) return fail(setup.error().text);
    setups.push_back(std::move(*setup));
  }
  const Sides sides(config, share_a_shard(config, setups, switched != nullptr), switched.get());
  const std::vector<Pair>& pairs = sides.pairs();
  std::vector<SimulationPair> links;
  for (size_t i = 0; i < pairs.size(); ++i) {
    links.push_back({config.nodes[config.ports[i].node].name, &pairs[i].emulator->shard,
                     &pairs[i].reference.side->shard, pairs[i].emulator_port,
                     pairs[i].reference.number});
  }
  std::unique_ptr<SampledRun> sampled;
  if (options.series.wanted()) {
    if (switched == nullptr) return fail(config.path + ": there is no network to look at");
    auto made = SampledRun::create(options.series, *switched);
    if (!made) return fail(made.error().text);
    sampled = std::move(*made);
  }
  std::vector<std::unique_ptr<ReferenceJob>> jobs;
  for (size_t i = 0; i < config.jobs.size(); ++i) {
    auto made = ReferenceJob::create(
        config, i, std::move(setups[i]),
        [&](NodeId node, uint32_t nic) { return sides.of(config, node, nic); }, options.feed_path);
    if (!made) return fail(made.error().text);
    jobs.push_back(std::move(*made));
    if (options.timeline) jobs.back()->record();
    jobs.back()->start();
    if (sampled == nullptr) continue;
    for (const auto* pairs_of : jobs.back()->controlled()) sampled->watch(*pairs_of);
  }
  auto simulation = Simulation::create(links, options.capture_path);
  if (!simulation) return fail(simulation.error().text);

  RunReport report = start_report(config, true);
  for (const EventConfig& event : all_events(config, options.commands)) {
    // The reference node's own NIC keeps its rate: a slower link is the emulated queue's business.
    for (const Pair& pair : pairs) {
      if (pair.emulator_port != 0) continue;  // of a shard that has another one
      pair.emulator->control.set_link(event.node, event.rate, event.latency, event.at);
    }
    (*simulation)->note_change({event.at, event.node, event.rate, event.latency});
    report.commands.push_back({event.at, command_text(config, event)});
  }
  if (options.progress) options.progress("simulating in virtual time ...");
  // Its timers, and those of its queue pairs, may go on for ever.
  std::optional<DeadlockSearch> search;
  if (switched != nullptr) {
    search.emplace(*pairs[0].emulator->shard.network());
    (*simulation)->watch([&] {
      return find_no_deadlock(config.path, switched->topology().graph,
                              *pairs[0].emulator->shard.network(), *search);
    });
  }
  if (sampled != nullptr) {
    auto ran =
        sampled->run(**simulation, pairs[0].emulator->shard, [&] { return over(jobs, *switched); });
    if (!ran) return fail(ran.error().text);
  }
  if (auto ran = (*simulation)->run(Time::never()); !ran) return fail(ran.error().text);
  if (switched != nullptr) {
    auto ended = find_no_deadlock(config.path, switched->topology().graph,
                                  *pairs[0].emulator->shard.network(), *search);
    if (!ended) return fail(ended.error().text);
  }

  Time end;
  for (const auto& job : jobs) {
    report.jobs.push_back(job->report());
    if (options.timeline) job->add_timeline(report.timeline);
    for (const CollectiveReport& c : report.jobs.back().collectives) end = std::max(end, c.end());
  }
  report.duration = end - Time::zero();
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Shard& emulator = pairs[i].emulator->shard;
    const bool first = pairs[i].emulator_port == 0;
    ShardSnapshot snapshot;
    emulator.fit(snapshot);
    emulator.snapshot(snapshot, end, pairs[i].emulator_port);
    if (switched != nullptr && first) report.traffic = switched->report(snapshot, end);
    if (sampled != nullptr && first) {
      if (auto done = sampled->finish(config.path, snapshot); !done) {
        return fail(done.error().text);
      }
    }
    report.ports.push_back(port_report(links[i].name, config.ports[i], config,
                                       emulator.node_table(), snapshot, PortCounters{}));
    if (pairs[i].emulator_port != 0) leave_out_shared(report.ports.back());
    sides.reference().add_senders(report.ports.back(), config, i, end);
  }
  if (!options.capture_path.empty()) report.capture_drops = 0;
  if (auto closed = (*simulation)->close(); !closed) return fail(closed.error().text);
  judge(report);
  return report;
}

}  // namespace understudy
