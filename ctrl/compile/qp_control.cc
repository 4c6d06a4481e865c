#include "ctrl/compile/qp_control.h"

#include <utility>

#include "dataplane/cc/make_controller.h"

namespace understudy {
namespace {

/// Bytes on the link around a full packet's payload, and of an ACK: Ethernet to ICRC, FCS,
/// preamble and gap.
constexpr uint32_t kOverhead = 82, kAckBytes = 86;
/// Departures that a rate controller may ask for: 16 MiB in flight at a path MTU of 4096 bytes.
constexpr uint32_t kLogged = 4096;

/// Whether a rate controller goes by its path's length.
bool asks_for_path(const ControlParameters& parameters) {
  return std::holds_alternative<SwiftParameters>(parameters) ||
         std::visit(
             [](const auto& p) {
               if constexpr (requires { p.window; }) {
                 return p.window.kind == WindowRule::Kind::kBdp;
               }
               return false;
             },
             parameters);
}

struct PathFacts {
  Duration round_trip;  ///< of a full packet and its ACK while nothing else is there
  unsigned switches = 1;
};

PathFacts path_facts(const Config& config, const Topology* topology, NodeId node, unsigned nic,
                     const PortConfig& port, uint32_t mtu) {
  PathFacts facts;
  const auto add = [&](const GraphLink& link) {
    facts.round_trip +=
        link.latency * 2 + link.time_for(mtu + kOverhead) + link.time_for(kAckBytes);
  };
  if (topology == nullptr) {
    for (const auto& [end, its] : {std::pair{node, nic}, std::pair{port.node, port.nic}}) {
      const NicConfig& n = config.nodes[end].nics[its];
      add({.rate = n.link_rate, .latency = n.link_latency, .limits = n.limits.packets});
    }
    return facts;
  }
  Routes routes = topology->routes(config.seed);
  const VertexId from = topology->nics[node][nic], to = topology->nics[port.node][port.nic];
  const std::vector<LinkId> path = routes.path(from, to, flow_hash(from, to, 0));
  for (const LinkId link : path) add(topology->graph.link(link));
  facts.switches = static_cast<unsigned>(std::max<size_t>(path.size(), 1) - 1);
  return facts;
}

/// Controllers that go by round trips, or have a window, ask when packets left.
bool asks_for_departures(const ControlParameters& parameters, const Controller& controller) {
  return controller.window() != Controller::kNoWindow ||
         std::holds_alternative<TimelyParameters>(parameters) ||
         std::holds_alternative<SwiftParameters>(parameters);
}

}  // namespace

std::unique_ptr<QpControl> make_qp_control(const Config& config, const Topology* topology,
                                           const SenderConfig& sender, NodeId node, unsigned nic,
                                           const PortConfig& port, uint32_t mtu, bool from_real) {
  if (sender.control == kNoControl) return nullptr;
  const ControlConfig& control = config.controls[sender.control];
  SenderPath path;
  path.line = from_real ? config.nodes[port.node].nics[port.nic].link_rate
                        : config.nodes[node].nics[nic].link_rate;
  path.packet_bytes = mtu;
  PathFacts facts;
  if (asks_for_path(control.parameters)) facts = path_facts(config, topology, node, nic, port, mtu);
  path.base_rtt = control.base_rtt.value_or(facts.round_trip);
  QpControl::Setup setup;
  setup.controller = make_controller(control.parameters, path);
  setup.user = sender.user;
  setup.switches = facts.switches;
  setup.logged = asks_for_departures(control.parameters, *setup.controller) ? kLogged : 0;
  return std::make_unique<QpControl>(std::move(setup));
}

}  // namespace understudy
