#include "ctrl/session/traffic_run.h"

#include <algorithm>
#include <memory>

#include "ctrl/build/topology.h"
#include "ctrl/build/traffic.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/flow_run.h"
#include "ctrl/session/packet_run.h"
#include "ctrl/session/start_report.h"

namespace understudy {
namespace {

constexpr std::array<const char*, kPacketLosses> kLossNames = {
    "lost_buffer_full", "lost_headroom_full", "lost_on_link", "lost_by_outage"};

/// The flows of `spec` from `first` on, which took from and to these times.
TrafficGroupReport group_report(const std::string& name, uint32_t first, uint32_t count,
                                const std::vector<FlowSpec>& flows,
                                const std::vector<FlowTimes>& times) {
  TrafficGroupReport report;
  report.name = name;
  report.first = first;
  report.count = count;
  if (count == 0) return report;
  std::vector<Duration> took;
  took.reserve(count);
  Time start = Time::never(), end;
  double sum = 0;
  for (uint32_t i = first; i < first + count; ++i) {
    report.bytes += flows[i].bytes;
    start = std::min(start, times[i].start);
    end = std::max(end, times[i].received);
    took.push_back(times[i].received - times[i].start);
    sum += static_cast<double>(took.back().ps());
  }
  const auto p99 = took.begin() + static_cast<std::ptrdiff_t>((took.size() * 99 + 99) / 100 - 1);
  std::nth_element(took.begin(), p99, took.end());
  report.start = start;
  report.took = end - start;
  report.mean = Duration::ps(static_cast<int64_t>(sum / count));
  report.p99 = *p99;
  report.longest = *std::max_element(p99, took.end());
  return report;
}

FlowReport flow_report(const Graph& graph, const FlowSpec& flow, const FlowTimes& times) {
  FlowReport report;
  report.name = flow.name;
  report.from = graph.vertices()[flow.from].name;
  report.to = graph.vertices()[flow.to].name;
  report.bytes = flow.bytes;
  report.start = times.start;
  report.received = times.received - times.start;
  return report;
}

/// A link that carried so much while the run lasted `whole`.
TrafficLinkReport link_report(const Graph& graph, LinkId link, uint64_t wire_bytes,
                              Duration whole) {
  TrafficLinkReport report;
  report.name = graph.link_name(link);
  report.rate = graph.link(link).rate;
  report.wire_bytes = wire_bytes;
  if (whole.ps() > 0) {
    report.utilisation = static_cast<double>(wire_bytes) * 8 /
                         (static_cast<double>(report.rate.bps()) * whole.seconds());
  }
  return report;
}

TrafficLinkReport link_report(const Graph& graph, LinkId link, const NetworkLinkCounters& c,
                              Duration whole) {
  TrafficLinkReport report = link_report(graph, link, c.wire_bytes, whole);
  report.counters = {{"packets", c.packets},         {"marked", c.marked},
                     {"not_ecn_capable", c.not_ect}, {"queue_peak_bytes", c.queue_peak},
                     {"pauses", c.pauses},           {"resumes", c.resumes}};
  for (size_t i = 0; i < kPacketLosses; ++i) report.counters.emplace_back(kLossNames[i], c.lost[i]);
  report.queue_peak_at = c.queue_peak_at;
  report.paused = c.paused;
  if (c.pauses != 0) report.first_pause = c.first_pause;
  return report;
}

using Said = std::function<void(const std::string&)>;

/// All runs: what the groups and flows took.
void report_flows(TrafficReport& report, const Config& config, const Topology& topology,
                  const Traffic& traffic, const std::vector<FlowTimes>& times) {
  for (size_t i = 0; i < config.traffic.size(); ++i) {
    const uint32_t first = traffic.first[i];
    report.groups.push_back(group_report(config.traffic[i].name, first,
                                         traffic.first[i + 1] - first, traffic.flows, times));
  }
  if (traffic.flows.size() > kMostListedFlows) return;
  for (size_t i = 0; i < traffic.flows.size(); ++i) {
    report.flows.push_back(flow_report(topology.graph, traffic.flows[i], times[i]));
  }
}

std::vector<Duration> durations(const std::vector<FlowTimes>& times) {
  std::vector<Duration> out;
  out.reserve(times.size());
  for (const FlowTimes& t : times) out.push_back(t.received - t.start);
  return out;
}

/// Both give the end of the last event. `series` may be null.
Result<Time> by_packets(TrafficReport& report, const Config& config, const Topology& topology,
                        Traffic& traffic, const Said& progress, TrafficSeries* series) {
  const Graph& graph = topology.graph;
  if (!config.events.empty()) {
    return fail(config.path + ": changes of links need fabric.fidelity = \"flow\"");
  }
  if (auto routed = route_flows(topology, config.seed, traffic.flows); !routed) {
    return fail(config.path + ": " + routed.error().text);
  }
  const auto run = run_packets(config, graph, traffic.flows, progress, series);
  if (!run) return fail(run.error().text);
  std::vector<FlowTimes> times;
  for (const FlowResult& result : run->flows) times.push_back({result.start, result.received});
  report_flows(report, config, topology, traffic, times);
  for (size_t i = 0; i < report.flows.size(); ++i) {
    const FlowResult& result = run->flows[i];
    report.flows[i].acknowledged = result.acknowledged - result.start;
    report.flows[i].packets = {{"sent", result.packets},
                               {"repeated", result.repeated},
                               {"marked", result.marked},
                               {"lost", result.lost},
                               {"cnps", result.cnps}};
  }
  for (LinkId link = 0; link < run->links.size(); ++link) {
    if (run->links[link].packets == 0 && run->links[link].pauses == 0) continue;
    report.links.push_back(link_report(graph, link, run->links[link], run->end - Time::zero()));
  }
  report.work = {
      {"events", run->events}, {"packets", run->packets}, {"bytes_of_memory", run->memory_bytes}};
  if (series == nullptr) return run->end;
  std::vector<uint64_t> peaks, bytes;
  for (const NetworkLinkCounters& c : run->links) {
    peaks.push_back(c.queue_peak);
    bytes.push_back(c.wire_bytes);
  }
  if (auto done = series->finish(config.path, peaks, bytes, durations(times)); !done) {
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
  if (auto done = series->finish(config.path, peaks, run->link_bytes, durations(run->flows));
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
  return TrafficSeries::check(series, topology->graph, traffic->flows);
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
