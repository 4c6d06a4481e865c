#include "ctrl/session/traffic_run.h"

#include "ctrl/build/topology.h"
#include "ctrl/build/traffic.h"
#include "ctrl/session/packet_run.h"
#include "ctrl/session/start_report.h"

namespace understudy {
namespace {

constexpr std::array<const char*, kPacketLosses> kLossNames = {
    "lost_buffer_full", "lost_headroom_full", "lost_on_link", "lost_by_outage"};

FlowReport flow_report(const Graph& graph, const FlowSpec& flow) {
  FlowReport report;
  report.name = flow.name;
  report.from = graph.vertices()[flow.from].name;
  report.to = graph.vertices()[flow.to].name;
  report.bytes = flow.bytes;
  return report;
}

TrafficLinkReport link_report(const Graph& graph, LinkId link, const NetworkLinkCounters& c,
                              Duration whole) {
  TrafficLinkReport report;
  report.name = graph.link_name(link);
  report.rate = graph.link(link).rate;
  report.wire_bytes = c.wire_bytes;
  if (whole.ps() > 0) {
    report.utilisation = static_cast<double>(c.wire_bytes) * 8 /
                         (static_cast<double>(report.rate.bps()) * whole.seconds());
  }
  report.counters = {{"packets", c.packets},         {"marked", c.marked},
                     {"not_ecn_capable", c.not_ect}, {"queue_peak_bytes", c.queue_peak},
                     {"pauses", c.pauses},           {"resumes", c.resumes}};
  for (size_t i = 0; i < kPacketLosses; ++i) report.counters.emplace_back(kLossNames[i], c.lost[i]);
  report.queue_peak_at = c.queue_peak_at;
  report.paused = c.paused;
  if (c.pauses != 0) report.first_pause = c.first_pause;
  return report;
}

void fill(TrafficReport& report, const Graph& graph, const std::vector<FlowSpec>& flows,
          const PacketRun& run) {
  for (size_t i = 0; i < flows.size(); ++i) {
    const FlowResult& result = run.flows[i];
    FlowReport flow = flow_report(graph, flows[i]);
    flow.start = result.start;
    flow.received = result.received - result.start;
    flow.acknowledged = result.acknowledged - result.start;
    flow.packets = {{"sent", result.packets},
                    {"repeated", result.repeated},
                    {"marked", result.marked},
                    {"lost", result.lost},
                    {"cnps", result.cnps}};
    report.flows.push_back(std::move(flow));
  }
  for (LinkId link = 0; link < run.links.size(); ++link) {
    if (run.links[link].packets == 0 && run.links[link].pauses == 0) continue;
    report.links.push_back(link_report(graph, link, run.links[link], run.end - Time::zero()));
  }
  report.work = {
      {"events", run.events}, {"packets", run.packets}, {"bytes_of_memory", run.memory_bytes}};
}

}  // namespace

Result<RunReport> run_traffic(const Config& config,
                              const std::function<void(const std::string&)>& progress) {
  const auto topology = build_topology(config);
  if (!topology) return fail(describe(topology.error()));
  auto traffic = build_traffic(config, *topology);
  if (!traffic) return fail(describe(traffic.error()));
  std::vector<FlowSpec>& flows = traffic->flows;
  if (auto routed = route_flows(*topology, config.seed, flows); !routed) {
    return fail(config.path + ": " + routed.error().text);
  }
  RunReport report = start_report(config, true);
  TrafficReport& out = report.traffic.emplace();
  out.fidelity = "packet";
  for (size_t i = 0; i < config.traffic.size(); ++i) {
    const uint32_t first = traffic->first[i];
    out.groups.push_back({config.traffic[i].name, first, traffic->first[i + 1] - first});
  }
  const auto run = run_packets(config, topology->graph, flows, progress);
  if (!run) return fail(run.error().text);
  fill(out, topology->graph, flows, *run);
  report.duration = run->end - Time::zero();
  judge(report);
  return report;
}

}  // namespace understudy
