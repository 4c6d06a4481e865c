#include "ctrl/session/switched_run.h"

#include "ctrl/config/load.h"
#include "ctrl/session/flow_run.h"
#include "ctrl/session/link_changes.h"
#include "ctrl/session/packet_run.h"
#include "ctrl/session/traffic_reports.h"

namespace understudy {
namespace {

/// Empty if a network with switches can stand behind this configuration's ports.
std::string refusal(const Config& config) {
  const auto error = [&](unsigned line, const char* key, const char* found, std::string allowed) {
    return ConfigError{config.path, line, key, found, std::move(allowed)}.text();
  };
  if (config.ports.size() > 1) {
    return error(config.ports[1].line, "port", "a second one",
                 "[topology], [queues] and [[traffic]] go with one [[port]] so far");
  }
  const std::string what = config.topology       ? "[topology]"
                           : config.queues.given ? "[queues]"
                                                 : "[[traffic]]";
  if (!config.fabric.pacing) return error(0, "fabric.pacing", "false", "no meaning with " + what);
  if (config.fabric.control_class == ControlClass::kSeparate) {
    return error(0, "fabric.control_class", "\"separate\"",
                 "no meaning with " + what + ": classes are those of [queues]");
  }
  for (const NodeConfig& node : config.nodes) {
    for (const NicConfig& nic : node.nics) {
      if (!nic.link_rate.is_unlimited()) continue;
      return error(node.line, "node.link.rate", "\"unlimited\"",
                   "with " + what + " every link has a rate");
    }
  }
  return "";
}

}  // namespace

bool is_switched(const Config& config) {
  return config.topology.has_value() || config.queues.given || !config.traffic.empty();
}

std::string why_not_switched(const Config& config) {
  const bool real = !config.jobs.empty() || !config.services.empty() || !config.clients.empty();
  if (!real || !is_switched(config)) return "";
  return refusal(config);
}

Result<std::unique_ptr<SwitchedRun>> SwitchedRun::create(const Config& config) {
  if (const std::string why = refusal(config); !why.empty()) return fail(why);
  auto topology = build_topology(config);
  if (!topology) return fail(describe(topology.error()));
  std::unique_ptr<SwitchedRun> run(new SwitchedRun(config, std::move(*topology)));
  if (config.traffic.empty()) return run;
  if (auto added = run->add_traffic(); !added) return fail(added.error().text);
  return run;
}

Result<void> SwitchedRun::add_traffic() {
  auto traffic = build_traffic(config_, topology_);
  if (!traffic) return fail(describe(traffic.error()));
  flows_ = std::move(*traffic);
  if (config_.fabric.fidelity == FabricFidelity::kPacket) {
    if (auto routed = route_flows(topology_, config_.seed, flows_.flows); !routed) {
      return fail(config_.path + ": " + routed.error().text);
    }
    packets_ = std::make_unique<FlowTraffic>(topology_.graph, flows_.flows, config_.queues.flows,
                                             flow_controls(config_));
    return {};
  }
  auto senders = flow_senders(config_, topology_, flows_.flows);
  if (!senders) return fail(senders.error().text);
  senders_ = std::move(*senders);
  rates_ = std::make_unique<FlowModel>(topology_.graph, flows_.flows, senders_,
                                       config_.queues.flows, config_.queues.network.cut_through);
  load_ = std::make_unique<FlowLoad>(*rates_);
  return {};
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
  for (NodeId node = 0; node < config_.nodes.size(); ++node) {
    network->cables.push_back(cables_of(topology_, node));
  }
  shard.network = std::move(network);
  shard.background = packets_.get();
  if (load_ != nullptr) shard.background = load_.get();
}

TrafficReport SwitchedRun::report(const ShardSnapshot& snapshot, Time end) const {
  TrafficReport report;
  report.fidelity = rates_ == nullptr ? "packet" : "flow";
  std::vector<NetworkLinkCounters> links = snapshot.network;
  if (rates_ != nullptr) {
    const std::vector<uint64_t> bytes = rates_->link_bytes();
    for (LinkId link = 0; link < links.size(); ++link) links[link].wire_bytes += bytes[link];
    report_flows(report, config_, topology_, flows_, rates_->times());
  }
  if (packets_ != nullptr) {
    report_packets(report, config_, topology_, flows_, packets_->results());
  }
  report.links = link_reports(topology_.graph, links, end - Time::zero());
  uint64_t packets = 0;
  for (const NetworkLinkCounters& c : snapshot.network) packets += c.packets;
  report.work = {{"packets_on_links", packets}};
  return report;
}

}  // namespace understudy
