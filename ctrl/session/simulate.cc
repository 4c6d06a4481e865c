#include "ctrl/session/simulate.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "ctrl/build/collective.h"
#include "ctrl/build/iteration_reports.h"
#include "ctrl/build/rail.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/report/collect.h"
#include "ctrl/session/collective_links.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/deadlock.h"
#include "ctrl/session/link_timeline.h"
#include "ctrl/session/packet_model.h"
#include "ctrl/session/reference_feed.h"
#include "ctrl/session/sampled_run.h"
#include "ctrl/session/start_report.h"
#include "ctrl/session/switched_run.h"
#include "ctrl/session/traffic_run.h"
#include "dataplane/app/simulation.h"

namespace understudy {
namespace {

ShardConfig shard_in_network(const Config& config, size_t index, SwitchedRun* switched) {
  ShardConfig shard = emulator_shard(config, index, MacAddress{});
  if (switched != nullptr) switched->enter(shard, config.ports[index]);
  return shard;
}

/// One port: the emulator's shard and the reference node's.
struct Pair {
  Pair(const Config& config, size_t index, SwitchedRun* switched)
      : emulator(shard_in_network(config, index, switched)),
        reference(reference_shard(config, index)),
        emulator_control(emulator),
        reference_control(reference) {}
  Shard emulator, reference;
  ShardControl emulator_control, reference_control;
};

struct Job {
  std::unique_ptr<CollectiveSetup> setup;
  std::unique_ptr<EnvironmentHost> environment;
  std::unique_ptr<RanksHost> ranks;
};

/// Of the job's real node; nothing if it has none.
std::optional<size_t> port_of(const Config& config, const JobConfig& job,
                              const CollectiveSetup& setup) {
  const NodeId node = job.ranks[setup.job.real.front() / setup.gpus];
  for (size_t i = 0; i < config.ports.size(); ++i) {
    if (config.ports[i].node == node && config.ports[i].nic == setup.nic) return i;
  }
  return std::nullopt;
}

/// All operations are done, or have failed, and so are the flows beside them.
bool over(const std::vector<Job>& jobs, const SwitchedRun& switched) {
  const auto ended = [](const CollectiveProgress& p) {
    return p.failed || p.finished == p.results.size();
  };
  if (switched.packets() != nullptr && !switched.packets()->all_finished()) return false;
  if (switched.rates() != nullptr && switched.rates()->finished() < switched.flows().size()) {
    return false;
  }
  return std::ranges::all_of(jobs, [&](const Job& job) {
    return ended(job.environment->progress()) && ended(job.ranks->progress());
  });
}

/// When the real ranks had done their parts: those of one node wait for each other, each is done
/// when the last one is.
std::vector<Time> ends(const Job& job) {
  std::vector<Time> done;
  const CollectiveProgress& own = job.ranks->progress();
  for (uint32_t i = 0; i < own.finished; ++i) done.push_back(own.results[i].end);
  return done;
}

std::vector<IterationReport> iteration_reports(const Job& job) {
  const std::vector<Time> done = ends(job);
  IterationReports reports;
  for (const uint32_t rank : job.setup->job.real) {
    reports.add(iterations_of(job.setup->job.work[rank], done), job.setup->operations);
  }
  return reports.take();
}

/// What each real rank computed; its operations are in the report.
void add_compute(std::vector<TimelineTrack>& tracks, const std::string& name, const Job& job) {
  for (const uint32_t rank : job.setup->job.real) {
    TimelineTrack track{"job " + name, "compute, rank " + std::to_string(rank), {}};
    for (const ComputeSpan& span : compute_spans(job.setup->job.work[rank], ends(job))) {
      track.slices.push_back({span.from, span.length, "computes", {}});
    }
    if (!track.slices.empty()) tracks.push_back(std::move(track));
  }
}

/// The environment's view, and beside it the reference node's own times and verification.
JobReport reported(const Config& config, size_t index, const Job& job) {
  job.environment->end();
  JobReport report = job_report(config, index, job.environment->progress(), job.setup->operations,
                                Verified::kNo, [&](size_t i) { return job.setup->modelled[i]; });
  report.model = model_name(job.setup->model);
  report.algorithm = name_of(kAlgorithmNames, job.setup->algorithm);
  report.protocol = name_of(kProtocolNames, job.setup->protocol);
  if (const InferenceReport* found = job.environment->found()) report.inferred = *found;
  const CollectiveProgress& own = job.ranks->progress();
  report.failed = report.failed || own.failed;
  report.violations += own.violations;
  const size_t finished = std::min<size_t>(report.collectives.size(), own.finished);
  report.collectives.resize(finished);
  for (size_t i = 0; i < finished; ++i) {
    CollectiveReport& c = report.collectives[i];
    c.node_reported = own.results[i].end - own.results[i].entry;
    c.size_mismatches += own.results[i].size_mismatches;
    if (job.setup->job.exact) c.wrong_elements = own.results[i].wrong_elements;
  }
  report.per_iteration = operations_per_iteration(config.jobs[index]);
  if (config.jobs[index].iteration.stated() && finished == own.results.size()) {
    report.iterations = iteration_reports(job);
  }
  return report;
}

/// The configuration's changes and the caller's, in order of time.
std::vector<EventConfig> all_events(const Config& config, const SimulateOptions& options) {
  std::vector<EventConfig> events = config.events;
  events.insert(events.end(), options.commands.begin(), options.commands.end());
  std::stable_sort(events.begin(), events.end(),
                   [](const EventConfig& a, const EventConfig& b) { return a.at < b.at; });
  return events;
}

}  // namespace

Result<RunReport> simulate(const Config& given, const SimulateOptions& options) {
  const Config config = with_inner_packets(given);
  const bool anything = !config.jobs.empty() || !config.traffic.empty();
  if (anything && (config.jobs.empty() || all_emulated(config))) {
    Config changed = config;
    changed.events = all_events(config, options);
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
  const Topology* topology = switched == nullptr ? nullptr : &switched->topology();
  std::vector<std::unique_ptr<CollectiveSetup>> setups;
  for (const JobConfig& job : config.jobs) {
    auto setup = build_collective(config, job, job.entry == EntryMode::kScheduled, topology,
                                  carries_inner(config, job, true));
    if (!setup) return fail(setup.error().text);
    if (auto model = model_by_packets(config, job, **setup); !model) {
      return fail(model.error().text);
    }
    setups.push_back(std::move(*setup));
    if (switched == nullptr) continue;
    if (auto carried = switched->carry(job, *setups.back()); !carried)
      return fail(carried.error().text);
  }
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<SimulationPair> links;
  for (size_t i = 0; i < config.ports.size(); ++i) {
    pairs.push_back(std::make_unique<Pair>(config, i, switched.get()));
    links.push_back(
        {config.nodes[config.ports[i].node].name, &pairs[i]->emulator, &pairs[i]->reference});
  }
  std::unique_ptr<SampledRun> sampled;
  if (options.series.wanted()) {
    if (switched == nullptr) return fail(config.path + ": there is no network to look at");
    auto made = SampledRun::create(options.series, *switched);
    if (!made) return fail(made.error().text);
    sampled = std::move(*made);
  }
  std::vector<Job> jobs;
  for (const JobConfig& job : config.jobs) {
    Job made;
    made.setup = std::move(setups[jobs.size()]);
    const auto port = port_of(config, job, *made.setup);
    if (!port) {
      return fail(config.path + ":" + std::to_string(job.line) +
                  ": job: there is no [[port]] for NIC " + std::to_string(made.setup->nic) +
                  " of its real node");
    }
    Pair& pair = *pairs[*port];
    auto environment =
        EnvironmentHost::create(config, job, *made.setup, pair.emulator_control, false);
    if (!environment) return fail(environment.error().text);
    made.environment = std::move(*environment);
    auto ranks =
        RanksHost::create(config, job, *made.setup, pair.reference_control, *made.environment);
    if (!ranks) return fail(ranks.error().text);
    made.ranks = std::move(*ranks);
    if (FedOperations* feed = made.environment->feed()) {
      auto pieces = options.feed_path.empty() ? reference_feed(config, job, *made.setup)
                                              : recorded_feed(options.feed_path);
      if (!pieces) return fail(pieces.error().text);
      feed->follow(std::move(*pieces));
    }
    if (options.timeline) made.environment->record();
    made.environment->start();
    made.ranks->start();
    if (sampled != nullptr) {
      sampled->watch(made.environment->controlled());
      sampled->watch(made.ranks->controlled());
    }
    jobs.push_back(std::move(made));
  }
  auto simulation = Simulation::create(links, options.capture_path);
  if (!simulation) return fail(simulation.error().text);

  RunReport report = start_report(config, true);
  for (const EventConfig& event : all_events(config, options)) {
    // The reference node's own NIC keeps its rate: a slower link is the emulated queue's business.
    for (auto& pair : pairs) {
      pair->emulator_control.set_link(event.node, event.rate, event.latency, event.at);
    }
    (*simulation)->note_change({event.at, event.node, event.rate, event.latency});
    report.commands.push_back({event.at, command_text(config, event)});
  }
  if (options.progress) options.progress("simulating in virtual time ...");
  // Its timers, and those of its queue pairs, may go on for ever.
  std::optional<DeadlockSearch> search;
  if (switched != nullptr) {
    search.emplace(*pairs[0]->emulator.network());
    (*simulation)->watch([&] {
      return find_no_deadlock(config.path, switched->topology().graph,
                              *pairs[0]->emulator.network(), *search);
    });
  }
  if (sampled != nullptr) {
    auto ran =
        sampled->run(**simulation, pairs[0]->emulator, [&] { return over(jobs, *switched); });
    if (!ran) return fail(ran.error().text);
  }
  if (auto ran = (*simulation)->run(Time::never()); !ran) return fail(ran.error().text);
  if (switched != nullptr) {
    auto ended = find_no_deadlock(config.path, switched->topology().graph,
                                  *pairs[0]->emulator.network(), *search);
    if (!ended) return fail(ended.error().text);
  }

  Time end;
  for (size_t i = 0; i < jobs.size(); ++i) {
    report.jobs.push_back(reported(config, i, jobs[i]));
    if (options.timeline) {
      add_compute(report.timeline, config.jobs[i].name, jobs[i]);
      add_timeline(report.timeline, config, config.jobs[i], *jobs[i].setup,
                   jobs[i].environment->moments());
    }
    for (const CollectiveReport& c : report.jobs.back().collectives) end = std::max(end, c.end());
  }
  report.duration = end - Time::zero();
  for (size_t i = 0; i < pairs.size(); ++i) {
    ShardSnapshot snapshot;
    pairs[i]->emulator.fit(snapshot);
    pairs[i]->emulator.snapshot(snapshot, end);
    report.ports.push_back(port_report(links[i].name, config.ports[i], config,
                                       pairs[i]->emulator.node_table(), snapshot, PortCounters{}));
    if (switched != nullptr) report.traffic = switched->report(snapshot, end);
    if (sampled != nullptr) {
      if (auto done = sampled->finish(config.path, snapshot); !done) {
        return fail(done.error().text);
      }
    }
    ShardSnapshot node;
    pairs[i]->reference.fit(node);
    pairs[i]->reference.snapshot(node, end);
    const auto reference = sender_reports(config, node, true);
    auto& senders = report.ports.back().senders;
    senders.insert(senders.end(), reference.begin(), reference.end());
  }
  if (!options.capture_path.empty()) report.capture_drops = 0;
  if (auto closed = (*simulation)->close(); !closed) return fail(closed.error().text);
  judge(report);
  return report;
}

}  // namespace understudy
