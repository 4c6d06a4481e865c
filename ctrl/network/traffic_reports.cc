#include "ctrl/network/traffic_reports.h"

#include <algorithm>
#include <array>

#include "ctrl/network/ideal_times.h"

namespace understudy {
namespace {

constexpr std::array<const char*, kPacketLosses> kLossNames = {
    "lost_buffer_full", "lost_headroom_full", "lost_on_link",
    "lost_by_outage",   "lost_without_route", "lost_by_watchdog"};
/// Counted in every network; what comes behind only where it happened.
constexpr size_t kLossesOfAll = 4;

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
    if (times[i].received.is_never()) continue;
    start = std::min(start, times[i].start);
    end = std::max(end, times[i].received);
    took.push_back(times[i].received - times[i].start);
    sum += static_cast<double>(took.back().ps());
  }
  report.ended = static_cast<uint32_t>(took.size());
  if (took.empty()) return report;
  const auto p99 = took.begin() + static_cast<std::ptrdiff_t>((took.size() * 99 + 99) / 100 - 1);
  std::nth_element(took.begin(), p99, took.end());
  report.start = start;
  report.took = end - start;
  report.mean = Duration::ps(static_cast<int64_t>(sum / report.ended));
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
  if (!times.received.is_never()) report.received = times.received - times.start;
  return report;
}

TrafficLinkReport counted_link_report(const Graph& graph, LinkId link, const NetworkLinkCounters& c,
                                      Duration whole) {
  TrafficLinkReport report = link_report(graph, link, c.wire_bytes, whole);
  report.counters = {{"packets", c.packets},         {"marked", c.marked},
                     {"not_ecn_capable", c.not_ect}, {"queue_peak_bytes", c.queue_peak},
                     {"pauses", c.pauses},           {"resumes", c.resumes}};
  for (size_t i = 0; i < kPacketLosses; ++i) {
    if (i < kLossesOfAll || c.lost[i] != 0) report.counters.emplace_back(kLossNames[i], c.lost[i]);
  }
  report.queue_peak_at = c.queue_peak_at;
  report.paused = c.paused;
  if (c.pauses != 0) report.first_pause = c.first_pause;
  return report;
}

void add_storms(TrafficLinkReport& report, const StormCounters& storms) {
  if (storms.pauses != 0) report.counters.emplace_back("storm_pauses", storms.pauses);
  if (storms.found != 0) report.counters.emplace_back("storms_detected", storms.found);
  for (uint64_t i = 0; i < std::min<uint64_t>(storms.found, storms.at.size()); ++i) {
    report.storms_detected.push_back(storms.at[i]);
  }
}

/// Beside what flows take alone, those of tables that ask for it.
void report_slowdowns(TrafficReport& report, const Config& config, const Topology& topology,
                      const Traffic& traffic, const std::vector<FlowTimes>& times) {
  IdealTimes ideal(config, topology, traffic.flows);
  for (size_t table = 0; table < config.traffic.size(); ++table) {
    if (!config.traffic[table].slowdown) continue;
    auto& slowdowns = report.groups[table].slowdowns.emplace();
    for (uint32_t i = traffic.first[table]; i < traffic.first[table + 1]; ++i) {
      const Duration alone = ideal.of(i);
      if (!report.flows.empty()) report.flows[i].ideal = alone;
      if (times[i].received.is_never()) continue;
      const Duration took = times[i].received - times[i].start;
      if (const auto slowdown = slowdown_of(took, alone)) {
        slowdowns.push_back({traffic.flows[i].bytes, *slowdown});
      }
    }
  }
}

}  // namespace

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

std::vector<TrafficLinkReport> link_reports(const Graph& graph,
                                            const std::vector<NetworkLinkCounters>& links,
                                            const std::vector<StormCounters>& storms,
                                            Duration whole) {
  std::vector<TrafficLinkReport> reports;
  for (LinkId link = 0; link < links.size(); ++link) {
    if (links[link].wire_bytes == 0 && links[link].pauses == 0) continue;
    reports.push_back(counted_link_report(graph, link, links[link], whole));
    if (!storms.empty()) add_storms(reports.back(), storms[link]);
  }
  return reports;
}

void report_flows(TrafficReport& report, const Config& config, const Topology& topology,
                  const Traffic& traffic, const std::vector<FlowTimes>& times) {
  for (size_t i = 0; i < config.traffic.size(); ++i) {
    const uint32_t first = traffic.first[i];
    report.groups.push_back(group_report(config.traffic[i].name, first,
                                         traffic.first[i + 1] - first, traffic.flows, times));
  }
  const size_t all = traffic.first.back();  // a job's messages come after them
  const size_t listed = all > kMostListedFlows ? 0 : all;
  for (size_t i = 0; i < listed; ++i) {
    report.flows.push_back(flow_report(topology.graph, traffic.flows[i], times[i]));
  }
  report_slowdowns(report, config, topology, traffic, times);
}

void report_packets(TrafficReport& report, const Config& config, const Topology& topology,
                    const Traffic& traffic, const std::vector<FlowResult>& results) {
  std::vector<FlowTimes> times;
  times.reserve(results.size());
  for (const FlowResult& result : results) times.push_back({result.start, result.received});
  report_flows(report, config, topology, traffic, times);
  for (size_t i = 0; i < report.flows.size(); ++i) {
    const FlowResult& result = results[i];
    if (!result.acknowledged.is_never()) {
      report.flows[i].acknowledged = result.acknowledged - result.start;
    }
    report.flows[i].packets = {{"sent", result.packets},
                               {"repeated", result.repeated},
                               {"marked", result.marked},
                               {"lost", result.lost},
                               {"cnps", result.cnps}};
  }
}

}  // namespace understudy
