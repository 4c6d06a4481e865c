#include "ctrl/session/switched_run.h"

#include "ctrl/session/packet_run.h"
#include "ctrl/session/traffic_reports.h"

namespace understudy {

bool is_switched(const Config& config) {
  return config.topology.has_value() || config.queues.given || !config.traffic.empty();
}

std::string why_not_switched(const Config& config) {
  const bool real = !config.jobs.empty() || !config.services.empty() || !config.clients.empty();
  if (!real || !is_switched(config)) return "";
  const auto at = [&](unsigned line) {
    return config.path + (line == 0 ? "" : ":" + std::to_string(line)) + ": ";
  };
  if (config.ports.size() > 1) {
    return at(config.ports[1].line) +
           "port: found a second one: [topology], [queues] and [[traffic]] go with one [[port]] so "
           "far";
  }
  const char* what = config.topology       ? "[topology]"
                     : config.queues.given ? "[queues]"
                                           : "[[traffic]]";
  if (!config.fabric.pacing) return at(0) + "fabric.pacing: false has no meaning with " + what;
  if (config.fabric.control_class == ControlClass::kSeparate) {
    return at(0) + "fabric.control_class: \"separate\" has no meaning with " + what +
           ": classes are those of [queues]";
  }
  if (config.fabric.fidelity == FabricFidelity::kFlow) {
    return at(0) + "fabric.fidelity: \"flow\" is for [[traffic]] without a real node so far";
  }
  for (const NodeConfig& node : config.nodes) {
    for (const NicConfig& nic : node.nics) {
      if (!nic.link_rate.is_unlimited()) continue;
      return at(node.line) + "node.link.rate: found \"unlimited\": with " + what +
             " every link has a rate";
    }
  }
  return "";
}

Result<std::unique_ptr<SwitchedRun>> SwitchedRun::create(const Config& config) {
  if (const std::string why = why_not_switched(config); !why.empty()) return fail(why);
  auto topology = build_topology(config);
  if (!topology) return fail(describe(topology.error()));
  std::unique_ptr<SwitchedRun> run(new SwitchedRun(config, std::move(*topology)));
  if (config.traffic.empty()) return run;
  auto traffic = build_traffic(config, run->topology_);
  if (!traffic) return fail(describe(traffic.error()));
  run->flows_ = std::move(*traffic);
  if (auto routed = route_flows(run->topology_, config.seed, run->flows_.flows); !routed) {
    return fail(config.path + ": " + routed.error().text);
  }
  run->traffic_ = std::make_unique<FlowTraffic>(run->topology_.graph, run->flows_.flows,
                                                config.queues.flows, flow_controls(config));
  return run;
}

void SwitchedRun::enter(ShardConfig& shard, const PortConfig& port) {
  auto network = std::make_shared<SwitchedNetwork>();
  network->graph = topology_.graph;
  network->settings = network_settings(config_, flows_.flows);
  network->choice = topology_.choice;
  network->static_routes = topology_.static_routes;
  network->seed = config_.seed;
  network->packets = shard.packets;
  for (const NodeNic& nic : shard.nodes.nics()) {
    network->nics.push_back(topology_.nics[nic.id][port.nic]);
  }
  shard.network = std::move(network);
  shard.background = traffic_.get();
}

TrafficReport SwitchedRun::report(const ShardSnapshot& snapshot, Time end) const {
  TrafficReport report;
  report.fidelity = "packet";
  report.links = link_reports(topology_.graph, snapshot.network, end - Time::zero());
  if (traffic_ != nullptr) {
    report_packets(report, config_, topology_, flows_, traffic_->results());
  }
  uint64_t packets = 0;
  for (const NetworkLinkCounters& c : snapshot.network) packets += c.packets;
  report.work = {{"packets_on_links", packets}};
  return report;
}

}  // namespace understudy
