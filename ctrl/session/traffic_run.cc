#include "ctrl/session/traffic_run.h"

#include <memory>

#include "ctrl/build/topology.h"
#include "ctrl/build/traffic.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/flow_run.h"
#include "ctrl/session/link_changes.h"
#include "ctrl/session/packet_run.h"
#include "ctrl/session/ring_links.h"
#include "ctrl/session/start_report.h"
#include "ctrl/session/traffic_reports.h"

namespace understudy {
namespace {

using Said = std::function<void(const std::string&)>;

/// Both give the end of the last event. `series` may be null.
Result<Time> by_packets(TrafficReport& report, const Config& config, const Topology& topology,
                        Traffic& traffic, const Said& progress, TrafficSeries* series) {
  const Graph& graph = topology.graph;
  if (auto routed = route_flows(topology, config.seed, traffic.flows); !routed) {
    return fail(config.path + ": " + routed.error().text);
  }
  const auto run =
      run_packets(config, graph, traffic.flows, progress, series, link_changes(config, topology));
  if (!run) return fail(run.error().text);
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
                              const SeriesOptions& series_options) {
  const auto topology = build_topology(config);
  if (!topology) return fail(describe(topology.error()));
  auto traffic = build_traffic(config, *topology);
  if (!traffic) return fail(describe(traffic.error()));
  RunReport report = start_report(config, true);
  for (const EventConfig& event : config.events) {
    report.commands.push_back({event.at, command_text(config, event)});
  }
  TrafficReport& out = report.traffic.emplace();
  std::unique_ptr<TrafficSeries> series;
  if (series_options.wanted()) {
    auto made = TrafficSeries::create(series_options, topology->graph, traffic->flows);
    if (!made) return tl::unexpected(made.error());
    series = std::move(*made);
  }
  const bool packets = config.fabric.fidelity == FabricFidelity::kPacket;
  out.fidelity = packets ? "packet" : "flow";
  const auto end = packets ? by_packets(out, config, *topology, *traffic, progress, series.get())
                           : by_rates(out, config, *topology, *traffic, progress, series.get());
  if (!end) return fail(end.error().text);
  report.duration = *end - Time::zero();
  judge(report);
  return report;
}

}  // namespace understudy
