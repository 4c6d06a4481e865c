#include "ctrl/traffic/real_time_budget.h"

#include <algorithm>
#include <ctime>

#include "ctrl/traffic/flow_routes.h"
#include "dataplane/base/text_format.h"
#include "dataplane/cc/make_controller.h"
#include "dataplane/flows/flow_traffic.h"

namespace understudy {
namespace {

constexpr double kShare = 0.5;
constexpr double kEventsPerLink = 2;
constexpr uint32_t kSenders = 16;
constexpr uint64_t kMeasuredBytes = 4 << 20;  ///< of each sender

/// Of this thread alone: what else the machine does now says nothing about the run.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// All-to-one and one-to-all through one switch: queues, acknowledgements, several flows a link.
std::vector<FlowSpec> measured_flows(Graph& graph) {
  const VertexId middle = graph.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
  std::vector<LinkId> up;
  for (uint32_t i = 0; i < kSenders; ++i) {
    const VertexId nic = graph.add_vertex({VertexKind::kNic, std::to_string(i), i, 0, 0});
    up.push_back(
        graph.connect(nic, middle, Rate::bits_per_second(100'000'000'000), Duration::us(1)));
  }
  std::vector<FlowSpec> flows;
  for (uint32_t i = 0; i < kSenders; ++i) {
    const uint32_t to = i == 0 ? 1 : 0;
    FlowSpec flow;
    flow.from = graph.link(up[i]).from;
    flow.to = graph.link(up[to]).from;
    flow.bytes = kMeasuredBytes;
    flow.path = {up[i], reverse(up[to])};
    flow.back = {up[to], reverse(up[i])};
    flows.push_back(flow);
  }
  return flows;
}

}  // namespace

double needed_events_per_second(const Config& config, const Topology& topology,
                                const std::vector<FlowSpec>& flows) {
  const FlowSettings& frames = config.queues.flows;
  const Graph& graph = topology.graph;
  Routes routes = topology.routes(config.seed);
  std::vector<double> bytes(graph.links().size());
  double events = 0, seconds = 0;
  for (const FlowSpec& flow : flows) {
    const uint64_t whole = (flow.bytes + frames.payload - 1) / frames.payload;
    const auto packets = static_cast<double>(whole);
    const double acks = packets / frames.ack_every;
    const auto wire = static_cast<double>(flow.bytes) + packets * (frames.overhead + frames.gap);
    const std::vector<LinkId> path = path_of(routes, flow), back = path_back_of(routes, flow);
    for (const LinkId link : path) bytes[link] += wire;
    events += kEventsPerLink * (packets * static_cast<double>(path.size()) +
                                acks * static_cast<double>(back.size()));
    seconds = std::max(seconds, flow.start.seconds());
  }
  for (LinkId link = 0; link < bytes.size(); ++link) {
    seconds = std::max(seconds, bytes[link] * 8 / static_cast<double>(graph.link(link).rate.bps()));
  }
  return seconds == 0 ? 0 : events / seconds;
}

double measured_events_per_second() {
  Graph graph;
  const std::vector<FlowSpec> flows = measured_flows(graph);
  const FlowSettings frames;
  NetworkSettings settings;
  settings.classes.emplace_back();
  FlowTraffic traffic(graph, flows, frames, [&](const FlowSpec&, Rate line, Duration base_rtt) {
    FlowControl control;
    control.controller =
        make_controller(NoControlParameters(), SenderPath{line, base_rtt, frames.payload});
    return control;
  });
  Network network(graph, settings, traffic);
  traffic.start(network);
  const double start = cpu_seconds();
  while (!traffic.all_finished() && !network.next().is_never()) network.step();
  return static_cast<double>(network.events()) / (cpu_seconds() - start);
}

Result<void> fits_real_time(const Config& config, const Topology& topology,
                            const std::vector<FlowSpec>& flows,
                            const std::vector<std::vector<FlowSpec>>& inner) {
  double needed = needed_events_per_second(config, topology, flows);
  for (const std::vector<FlowSpec>& load : inner) {
    needed += needed_events_per_second(config, topology, load);
  }
  if (needed == 0) return {};
  const double measured = measured_events_per_second();
  if (needed <= measured * kShare) return {};
  const bool traffic = !config.traffic.empty();
  unsigned line = 0;
  for (const JobConfig& job : config.jobs) {
    if (line == 0 && job.inner == InnerMode::kPackets) line = job.line;
  }
  if (traffic) line = config.traffic.front().line;
  const std::string text = format_text(
      ": %s: needs %.2f M events/s packet by packet; this machine does %.2f M "
      "events/s, of which half is for it: take %s, slower links, or simulate",
      inner.empty() ? "traffic"
      : traffic     ? "traffic, and job.inner = \"packets\""
                    : "job.inner = \"packets\"",
      needed / 1e6, measured / 1e6, inner.empty() ? "less of it" : "inner = \"times\"");
  return fail(config.path + ":" + std::to_string(line) + text);
}

}  // namespace understudy
