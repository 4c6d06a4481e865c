#include "ctrl/session/packet_run.h"

#include <algorithm>

#include "ctrl/build/traffic.h"
#include "ctrl/session/deadlock.h"
#include "ctrl/session/progress.h"
#include "dataplane/base/text_format.h"
#include "dataplane/cc/make_controller.h"

namespace understudy {
namespace {

/// Most paths that the packets of one flow are spread over.
constexpr size_t kMostPaths = 64;
constexpr uint64_t kEventsBetweenLooks = 1 << 20;

FlowControl control_of(const Config& config, const FlowSpec& flow, const SenderPath& path) {
  FlowControl control;
  if (flow.control == kNoControl) {
    control.controller = make_controller(NoControlParameters(), path);
    return control;
  }
  const ControlConfig& named = config.controls[flow.control];
  SenderPath known = path;
  if (named.base_rtt) known.base_rtt = *named.base_rtt;
  control.controller = make_controller(named.parameters, known);
  if (const auto* dcqcn = std::get_if<DcqcnParameters>(&named.parameters)) {
    control.cnps = dcqcn->echo == DcqcnParameters::Echo::kCnp;
    control.cnp_interval = dcqcn->cnp_interval;
  }
  return control;
}

bool needs_telemetry(const Config& config, const std::vector<FlowSpec>& flows) {
  return std::any_of(flows.begin(), flows.end(), [&](const FlowSpec& flow) {
    return flow.control != kNoControl &&
           std::holds_alternative<HpccParameters>(config.controls[flow.control].parameters);
  });
}

void tell(Progress& progress, const FlowTraffic& traffic, const Network& network, double bytes,
          Time now) {
  if (!progress.due()) return;
  const double done = static_cast<double>(traffic.delivered_bytes()) / bytes;
  progress.line(
      format_text("%5.1f %% of the bytes, %zu flows ended, %.3f ms modelled, %.1f M events/s",
                  done * 100, traffic.finished(), now.seconds() * 1e3,
                  static_cast<double>(network.events()) / progress.seconds() / 1e6),
      done);
}

std::string why_stuck(const Config& config, const Graph& graph, const Network& network,
                      const FlowTraffic& traffic, size_t flows) {
  std::string text = config.path + ": ";
  text += std::to_string(flows - traffic.finished()) + " of " + std::to_string(flows) +
          " flows never end: ";
  const std::vector<LinkId> cycle = network.deadlock();
  if (cycle.empty()) {
    return text + "packets were lost and nothing sends them again (flows.timeout is 0)";
  }
  return text + deadlock_text(graph, cycle);
}

}  // namespace

Result<void> route_flows(const Topology& topology, uint64_t seed, std::vector<FlowSpec>& flows) {
  Routes routes = topology.routes(seed);
  const std::vector<Vertex>& vertices = topology.graph.vertices();
  for (size_t i = 0; i < flows.size(); ++i) {
    FlowSpec& f = flows[i];
    if (!f.path.empty()) continue;
    const uint64_t number = hash_number(flows, i);
    f.path = routes.path(f.from, f.to, flow_hash(f.from, f.to, number));
    if (f.path.empty()) {
      return fail("flow \"" + f.name + "\": there is no path from " + vertices[f.from].name +
                  " to " + vertices[f.to].name);
    }
    // Acknowledgements are hashed by themselves, as by their own addresses and ports.
    if (f.back.empty()) f.back = routes.path(f.to, f.from, flow_hash(f.to, f.from, number));
    if (routes.choice() != RouteChoice::kSpray) continue;
    f.spray = routes.paths(f.from, f.to, kMostPaths);
    if (f.spray.size() == 1) f.spray.clear();
  }
  return {};
}

FlowTraffic::MakeControl flow_controls(const Config& config) {
  return [&config](const FlowSpec& flow, Rate line, Duration base_rtt) {
    return control_of(config, flow, {line, base_rtt, config.queues.flows.payload});
  };
}

NetworkSettings network_settings(const Config& config, const std::vector<FlowSpec>& flows) {
  NetworkSettings settings = config.queues.network;
  settings.seed = config.seed;
  settings.telemetry = needs_telemetry(config, flows);
  return settings;
}

Result<PacketRun> run_packets(const Config& config, const Graph& graph,
                              const std::vector<FlowSpec>& flows,
                              const std::function<void(const std::string&)>& progress,
                              TrafficSeries* series, const std::vector<RateChange>& changes,
                              const std::vector<RankTraffic*>& jobs) {
  const NetworkSettings settings = network_settings(config, flows);
  FlowTraffic traffic(graph, flows, config.queues.flows, flow_controls(config));
  Network network(graph, settings, traffic);
  if (series != nullptr) series->watch(traffic);
  uint32_t wakes = 0;
  for (RankTraffic* job : jobs) wakes = job->attach(traffic, wakes);
  traffic.start(network);
  for (RankTraffic* job : jobs) job->start();
  const SeriesSources sources{&network, &traffic, nullptr};
  Progress said(progress);
  double bytes = 0;
  for (const FlowSpec& flow : flows) bytes += static_cast<double>(flow.bytes);
  // Timers go on for ever where a timeout repeats what a deadlock holds back.
  uint64_t looked = 0, finished = 0, delivered = 0;
  auto change = changes.begin();
  const auto stuck = [&] { return !network.deadlock().empty(); };
  Time end;
  PacketRun run;
  // Ranks may have something to do when the last packet has come in.
  const auto over = [&] {
    return traffic.all_finished() &&
           std::ranges::all_of(jobs, [](const RankTraffic* job) { return job->finished(); });
  };
  while (!over() && !network.next().is_never()) {
    end = network.next();
    if (series != nullptr && !series->sample_until(end, sources, stuck)) break;
    for (; change != changes.end() && change->at <= end; ++change) network.change(*change);
    network.step();
    if (network.events() - looked < kEventsBetweenLooks) continue;
    looked = network.events();
    tell(said, traffic, network, bytes, end);
    if (network.paused_now() && finished == traffic.finished() &&
        delivered == traffic.delivered_bytes() && stuck()) {
      break;
    }
    finished = traffic.finished();
    delivered = traffic.delivered_bytes();
  }
  network.finish(end);
  if (!traffic.all_finished()) {
    return fail(why_stuck(config, graph, network, traffic, flows.size()));
  }
  while (series != nullptr && !series->holds(end)) series->sample(sources);
  run.flows = traffic.results();
  for (LinkId link = 0; link < graph.links().size(); ++link) {
    run.links.push_back(network.counters(link));
  }
  for (VertexId v = 0; v < graph.vertices().size(); ++v) {
    run.buffer_peaks.push_back(network.buffer_peak(v));
  }
  run.events = network.events();
  run.packets = network.delivered();
  run.memory_bytes = network.memory_bytes() + traffic.memory_bytes();
  run.end = end;
  return run;
}

}  // namespace understudy
