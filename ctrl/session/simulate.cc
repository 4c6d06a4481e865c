#include "ctrl/session/simulate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "ctrl/build/collective.h"
#include "ctrl/build/iteration_reports.h"
#include "ctrl/build/net_ib_environment.h"
#include "ctrl/build/rail.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/peers/nccl/net_ib_layout.h"
#include "ctrl/report/collect.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/deadlock.h"
#include "ctrl/session/kernel_run.h"
#include "ctrl/session/link_timeline.h"
#include "ctrl/session/packet_model.h"
#include "ctrl/session/ranks_host.h"
#include "ctrl/session/reference_feed.h"
#include "ctrl/session/sampled_run.h"
#include "ctrl/session/start_report.h"
#include "ctrl/session/switched_run.h"
#include "ctrl/session/traffic_run.h"
#include "dataplane/app/simulation.h"

namespace understudy {
namespace {

/// A shard with its control.
struct Side {
  explicit Side(const ShardConfig& config) : shard(config), control(shard) {}
  Shard shard;
  ShardControl control;
};

/// One port: its shard and the reference node's, and which of their ports it is.
struct Pair {
  Side* emulator = nullptr;
  Side* reference = nullptr;
  uint32_t emulator_port = 0, reference_port = 0;
};

struct Job {
  std::unique_ptr<CollectiveSetup> setup;
  std::unique_ptr<EnvironmentHost> environment;
  std::vector<std::unique_ptr<RanksHost>> ranks;  ///< of its real nodes
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
  Sides(const Config& config, bool together, SwitchedRun* switched) : pairs_(config.ports.size()) {
    PortList all(config.ports.size());
    std::iota(all.begin(), all.end(), size_t{0});
    for (const size_t port : all) {
      if (pairs_[port].emulator == nullptr) {
        const PortList ports = together ? all : PortList{port};
        ShardConfig shard = emulator_shard(config, ports, MacAddress{});
        if (switched != nullptr) switched->enter(shard);
        add(config, ports, shard, &Pair::emulator, &Pair::emulator_port);
      }
      if (pairs_[port].reference == nullptr) {
        PortList ports{port};
        for (size_t other = port + 1; together && other < all.size(); ++other) {
          if (config.ports[other].node == config.ports[port].node) ports.push_back(other);
        }
        add(config, ports, reference_shard(config, ports), &Pair::reference, &Pair::reference_port);
      }
    }
  }

  const std::vector<Pair>& pairs() const { return pairs_; }
  /// Of a NIC of a real node, which has a port.
  const Pair& behind(const Config& config, NodeId node, uint32_t nic) const {
    size_t i = 0;
    while (config.ports[i].node != node || config.ports[i].nic != nic) ++i;
    return pairs_[i];
  }

 private:
  void add(const Config& config, const PortList& ports, const ShardConfig& shard, Side* Pair::*side,
           uint32_t Pair::*number) {
    sides_.push_back(std::make_unique<Side>(shard));
    const std::vector<uint32_t> numbers = port_numbers(config, ports);
    for (size_t i = 0; i < ports.size(); ++i) {
      pairs_[ports[i]].*side = sides_.back().get();
      pairs_[ports[i]].*number = numbers[i];
    }
  }

  std::vector<std::unique_ptr<Side>> sides_;
  std::vector<Pair> pairs_;  ///< by port of the configuration
};

Result<Job> connect(const Config& config, const JobConfig& job,
                    std::unique_ptr<CollectiveSetup> setup, const Sides& sides) {
  Job made;
  made.setup = std::move(setup);
  const CollectiveJob& out = made.setup->job;
  const auto pair_of = [&](uint32_t rank) -> const Pair& {
    return sides.behind(config, job.ranks[made.setup->communicator.node_of(rank)],
                        made.setup->communicator.nic_of(rank));
  };
  const NetIbLayout& layout = net_ib_layout(job.nccl);
  const NetIbEnvironment told = net_ib_environment(config);
  const NcclWire wire{.layout = layout.cts,
                      .queue_pairs = told.queue_pairs,
                      .split = told.split_data.value_or(layout.split_data)};
  auto environment = EnvironmentHost::create(
      config, job, *made.setup, pair_of(out.real.front()).emulator->control, false, wire.layout);
  if (!environment) return fail(environment.error().text);
  made.environment = std::move(*environment);
  for (uint32_t node = 0; node * made.setup->communicator.gpus < out.real.size(); ++node) {
    const Pair& pair = pair_of(out.real[node * made.setup->communicator.gpus]);
    auto ranks = RanksHost::create(config, job, *made.setup, node, pair.reference->control, wire);
    if (!ranks) return fail(ranks.error().text);
    made.ranks.push_back(std::move(*ranks));
  }
  for (const auto& ranks : made.ranks) {
    auto connected = ranks->connect(*made.environment, made.ranks);
    if (!connected) return fail(connected.error().text);
  }
  return made;
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
    return ended(job.environment->progress()) &&
           std::ranges::all_of(job.ranks, [&](const auto& r) { return ended(r->progress()); });
  });
}

/// When the real ranks of a node had done their parts: they wait for each other, each is done when
/// the last one is.
std::vector<Time> ends(const RanksHost& node) {
  std::vector<Time> done;
  const CollectiveProgress& own = node.progress();
  for (uint32_t i = 0; i < own.finished; ++i) done.push_back(own.results[i].end);
  return done;
}

std::vector<IterationReport> iteration_reports(const Job& job) {
  IterationReports reports;
  const CollectiveJob& out = job.setup->job;
  for (const auto& node : job.ranks) {
    const std::vector<Time> done = ends(*node);
    for (uint32_t real = node->own().first; real < node->own().end; ++real) {
      reports.add(iterations_of(out.work[out.real[real]], done), job.setup->operations);
    }
  }
  return reports.take();
}

/// What each real rank computed; its operations are in the report.
void add_compute(std::vector<TimelineTrack>& tracks, const std::string& name, const Job& job) {
  const CollectiveJob& out = job.setup->job;
  for (const auto& node : job.ranks) {
    for (uint32_t real = node->own().first; real < node->own().end; ++real) {
      const uint32_t rank = out.real[real];
      TimelineTrack track{"job " + name, "compute, rank " + std::to_string(rank), {}};
      for (const ComputeSpan& span : compute_spans(out.work[rank], ends(*node))) {
        track.slices.push_back({span.from, span.length, "computes", {}});
      }
      if (!track.slices.empty()) tracks.push_back(std::move(track));
    }
  }
}

/// What the reference nodes say of an operation that all of them have finished.
void add_reference(CollectiveReport& report, const Job& job, size_t operation) {
  Time entry = Time::never(), end;
  for (const auto& node : job.ranks) {
    const CollectiveResult& own = node->progress().results[operation];
    entry = std::min(entry, own.entry);
    end = std::max(end, own.end);
    report.size_mismatches += own.size_mismatches;
    if (job.setup->job.exact) {
      report.wrong_elements = report.wrong_elements.value_or(0) + own.wrong_elements;
    }
    if (job.ranks.size() > 1) report.by_node.push_back(own.end - own.entry);
  }
  report.node_reported = end - entry;
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
  size_t finished = report.collectives.size();
  for (const auto& node : job.ranks) {
    const CollectiveProgress& own = node->progress();
    report.failed = report.failed || own.failed;
    report.violations += own.violations;
    finished = std::min<size_t>(finished, own.finished);
    const uint32_t rank = job.setup->job.real[node->own().first];
    report.real_nodes.push_back(
        config.nodes[config.jobs[index].ranks[job.setup->communicator.node_of(rank)]].name);
  }
  report.collectives.resize(finished);
  for (size_t i = 0; i < finished; ++i) add_reference(report.collectives[i], job, i);
  report.per_iteration = operations_per_iteration(config.jobs[index]);
  if (config.jobs[index].iteration.stated() && finished == job.setup->operations.size()) {
    report.iterations = iteration_reports(job);
  }
  return report;
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
  const Sides sides(config, share_a_shard(config, setups, switched != nullptr), switched.get());
  const std::vector<Pair>& pairs = sides.pairs();
  std::vector<SimulationPair> links;
  for (size_t i = 0; i < pairs.size(); ++i) {
    links.push_back({config.nodes[config.ports[i].node].name, &pairs[i].emulator->shard,
                     &pairs[i].reference->shard, pairs[i].emulator_port, pairs[i].reference_port});
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
    auto joined = connect(config, job, std::move(setups[jobs.size()]), sides);
    if (!joined) return fail(joined.error().text);
    Job made = std::move(*joined);
    if (FedOperations* feed = made.environment->feed()) {
      auto pieces = options.feed_path.empty() ? reference_feed(config, job, *made.setup)
                                              : recorded_feed(options.feed_path);
      if (!pieces) return fail(pieces.error().text);
      feed->follow(std::move(*pieces));
    }
    if (options.timeline) made.environment->record();
    made.environment->start();
    for (const auto& ranks : made.ranks) ranks->start();
    if (sampled != nullptr) {
      sampled->watch(made.environment->controlled());
      for (const auto& ranks : made.ranks) sampled->watch(ranks->controlled());
    }
    jobs.push_back(std::move(made));
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
    if (pairs[i].reference_port != 0) continue;
    const Shard& reference_node = pairs[i].reference->shard;
    ShardSnapshot node;
    reference_node.fit(node);
    reference_node.snapshot(node, end);
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
