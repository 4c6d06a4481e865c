#include "ctrl/session/traffic_run.h"

#include <memory>

#include "collective_model/time_model.h"
#include "ctrl/build/iteration_reports.h"
#include "ctrl/build/rank_job.h"
#include "ctrl/build/topology.h"
#include "ctrl/build/traffic.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/flow_run.h"
#include "ctrl/session/link_changes.h"
#include "ctrl/session/link_ends.h"
#include "ctrl/session/packet_run.h"
#include "ctrl/session/rank_timeline.h"
#include "ctrl/session/start_report.h"
#include "ctrl/session/traffic_reports.h"

namespace understudy {
namespace {

using Said = std::function<void(const std::string&)>;

std::vector<IterationReport> iteration_reports(const RankJob& job) {
  IterationReports reports;
  for (uint32_t rank = 0; rank < job.communicator.ranks(); ++rank) {
    std::vector<Time> done;
    for (size_t o = 0; o < job.operations.size(); ++o) {
      done.push_back(job.ranks->completion(o, rank));
    }
    reports.add(iterations_of(job.work[rank], done), job.operations);
  }
  return reports.take();
}

RankJobReport job_report(const JobConfig& config, const RankJob& job) {
  RankJobReport report;
  report.name = config.name;
  report.collective = name_of(kCollectiveNames, config.collective);
  report.algorithm = name_of(kAlgorithmNames, config.algorithm);
  report.protocol = name_of(kProtocolNames, config.protocol);
  report.type = name_of(kDataTypeNames, config.type);
  report.ranks = job.communicator.ranks();
  report.nodes = job.communicator.nodes;
  report.channels = job.communicator.channels;
  report.element = element_bytes(config.type);
  report.bus_factor = bus_factor(config.collective, report.ranks);
  report.messages = job.messages;
  for (uint32_t i = 0; i < job.operations.size(); ++i) {
    RankOperationReport operation;
    operation.bytes = job.sizes[job.operations[i].size];
    operation.iteration = job.operations[i].iteration;
    operation.warmup = job.operations[i].warmup;
    operation.start = Time::never();
    Duration sum;
    for (uint32_t rank = 0; rank < report.ranks; ++rank) {
      const Duration took = job.ranks->completion(i, rank) - job.ranks->entry(i, rank);
      operation.start = std::min(operation.start, job.ranks->entry(i, rank));
      operation.longest = std::max(operation.longest, took);
      sum += took;
    }
    operation.mean = sum / report.ranks;
    report.operations.push_back(operation);
  }
  report.per_iteration = operations_per_iteration(config);
  if (config.iteration.stated()) report.iterations = iteration_reports(job);
  return report;
}

/// Both give the end of the last event. `series` may be null.
Result<Time> by_packets(TrafficReport& report, const Config& config, const Topology& topology,
                        Traffic& traffic, const Said& progress, TrafficSeries* series,
                        std::vector<TimelineTrack>* timeline) {
  const Graph& graph = topology.graph;
  uint32_t connections = 0;
  for (const FlowSpec& flow : traffic.flows) {
    if (flow.connection != kNoConnection) connections = std::max(connections, flow.connection + 1);
  }
  std::vector<RankJob> jobs;
  std::vector<RankTraffic*> ranks;
  for (const JobConfig& job : config.jobs) {
    auto made = build_rank_job(config, job, topology, traffic.flows, connections);
    if (!made) return tl::unexpected(made.error());
    if (timeline != nullptr) made->ranks->record();
    ranks.push_back(made->ranks.get());
    jobs.push_back(std::move(*made));
  }
  if (auto routed = route_flows(topology, config.seed, traffic.flows); !routed) {
    return fail(config.path + ": " + routed.error().text);
  }
  const auto run = run_packets(config, graph, traffic.flows, progress, series,
                               link_changes(config, topology), ranks);
  if (!run) return fail(run.error().text);
  for (size_t i = 0; i < jobs.size(); ++i) {
    report.jobs.push_back(job_report(config.jobs[i], jobs[i]));
    if (timeline != nullptr) add_timeline(*timeline, config, config.jobs[i], jobs[i], run->flows);
  }
  report_packets(report, config, topology, traffic, run->flows);
  report.links = link_reports(graph, run->links, run->end - Time::zero());
  report.work = {
      {"events", run->events}, {"packets", run->packets}, {"bytes_of_memory", run->memory_bytes}};
  if (series == nullptr) return run->end;
  std::vector<uint64_t> peaks, bytes;
  for (const NetworkLinkCounters& c : run->links) {
    peaks.push_back(c.queue_peak);
    bytes.push_back(c.wire_bytes);
  }
  if (auto done = series->finish(config.path, peaks, bytes, times_taken(run->flows)); !done) {
    return tl::unexpected(done.error());
  }
  return run->end;
}

Result<Time> by_rates(TrafficReport& report, const Config& config, const Topology& topology,
                      const Traffic& traffic, const Said& progress, TrafficSeries* series) {
  const auto run = run_flows(config, topology, traffic.flows, progress, series);
  if (!run) return fail(run.error().text);
  report_flows(report, config, topology, traffic, run->flows);
  for (LinkId link = 0; link < run->link_bytes.size(); ++link) {
    if (run->link_bytes[link] == 0) continue;
    report.links.push_back(
        link_report(topology.graph, link, run->link_bytes[link], run->end - Time::zero()));
  }
  report.work = {{"events", run->events}, {"rates_worked_out", run->filled}};
  if (series == nullptr) return run->end;
  const std::vector<uint64_t> peaks(run->link_bytes.size());
  if (auto done = series->finish(config.path, peaks, run->link_bytes, times_taken(run->flows));
      !done) {
    return tl::unexpected(done.error());
  }
  return run->end;
}

}  // namespace

Result<void> check_series(const Config& config, const SeriesOptions& series) {
  if (series.links.empty() && series.flows.empty()) return {};
  const auto topology = build_topology(config);
  if (!topology) return fail(describe(topology.error()));
  const auto traffic = build_traffic(config, *topology);
  if (!traffic) return fail(describe(traffic.error()));
  std::vector<std::string> queue_pairs;
  for (const JobConfig& job : config.jobs) {
    for (std::string& name : controlled_names(config, job)) queue_pairs.push_back(std::move(name));
  }
  return TrafficSeries::check(series, topology->graph, traffic->flows, queue_pairs);
}

Result<RunReport> run_traffic(const Config& config, const Said& progress,
                              const SeriesOptions& series_options, bool timeline) {
  const auto topology = build_topology(config);
  if (!topology) return fail(describe(topology.error()));
  auto traffic = build_traffic(config, *topology);
  if (!traffic) return fail(describe(traffic.error()));
  RunReport report = start_report(config, true);
  for (const EventConfig& event : config.events) {
    report.commands.push_back({event.at, command_text(config, event)});
  }
  TrafficReport& out = report.traffic.emplace();
  const std::vector<FlowSpec> named = traffic->flows;  // not the messages of jobs
  std::unique_ptr<TrafficSeries> series;
  if (series_options.wanted()) {
    auto made = TrafficSeries::create(series_options, topology->graph, named);
    if (!made) return tl::unexpected(made.error());
    series = std::move(*made);
  }
  const bool packets = config.fabric.fidelity == FabricFidelity::kPacket;
  if (!packets && !config.jobs.empty()) {
    return fail(config.path + ":" + std::to_string(config.jobs[0].line) +
                ": job: without a real node a job runs with fabric.fidelity = \"packet\"");
  }
  out.fidelity = packets ? "packet" : "flow";
  const auto end = packets ? by_packets(out, config, *topology, *traffic, progress, series.get(),
                                        timeline ? &report.timeline : nullptr)
                           : by_rates(out, config, *topology, *traffic, progress, series.get());
  if (!end) return fail(end.error().text);
  report.duration = *end - Time::zero();
  judge(report);
  return report;
}

}  // namespace understudy
