#include "ctrl/compile/events.h"

#include <algorithm>

#include "ctrl/config/read/load.h"
#include "ctrl/topology/event_links.h"
#include "ctrl/topology/named_links.h"

namespace understudy {
namespace {

std::string why_no_storm(const Scenario& scenario, const EventConfig& event) {
  const Config& config = scenario.config;
  const NetworkSettings& network = config.queues.network;
  const auto has_pfc = [&](const ClassSettings& c) {
    return c.pfc && (!event.priority || (c.priorities >> *event.priority & 1) != 0);
  };
  if (std::ranges::none_of(network.classes, has_pfc)) {
    return event.priority ? "its priority is in no class of [queues] with pfc, and ignores PAUSE"
                          : "no class of [queues] has pfc, and all ignore PAUSE";
  }
  const Graph& graph = scenario.topology->graph;
  for (const LinkId link : links_of(event, *scenario.topology)) {
    const Vertex& end = graph.vertices()[graph.link(link).to];
    if (end.kind != VertexKind::kNic) {
      return graph.link_name(link) + " does not lead to a NIC, which is what storms";
    }
    if (config.nodes[end.node].real) {
      return "\"" + end.name + "\" is real and sends its own PFC frames";
    }
  }
  if (network.watchdog && config.fabric.fidelity == FabricFidelity::kFlow && !scenario.real_side) {
    return "rates have no queues for queues.pfc_watchdog to look at: leave it out, or take "
           "fabric.fidelity = \"packet\"";
  }
  return "";
}

}  // namespace

std::string why_not(const Scenario& scenario, const EventConfig& event) {
  const Config& config = scenario.config;
  const Graph* graph = scenario.topology == nullptr ? nullptr : &scenario.topology->graph;
  const auto refused = [&](const char* key, const std::string& found, std::string allowed) {
    const std::string table = event.drill ? "drill.event." : "event.";
    return ConfigError{config.path, event.line, table + key, found, std::move(allowed)}.text();
  };
  if (event.is_of_node() && config.nodes[event.node].real) {
    return refused("node", "\"" + config.nodes[event.node].name + "\"",
                   "a real node keeps its own time: only emulated ones can be paused");
  }
  if (event.link && graph == nullptr) {
    return refused("link", "\"" + text_of(*event.link) + "\"",
                   "there is no network of switches: expected the name of a node");
  }
  if (event.link && links_called(*graph, *event.link).empty()) {
    return refused("link", "\"" + text_of(*event.link) + "\"", why_no_link(*graph, *event.link));
  }
  if (graph == nullptr && !event.is_of_nodes_links() && !event.is_of_traffic()) {
    return refused(event.of_switch ? "switch"
                   : event.nic     ? "nic"
                                   : "action",
                   event.of_switch ? "\"" + *event.of_switch + "\""
                   : event.nic     ? std::to_string(*event.nic)
                                   : "\"storm\"",
                   "there is no network of switches: [topology] makes one");
  }
  if (event.of_switch) {
    const VertexId found = graph->find(*event.of_switch);
    if (found == kNoVertex || graph->vertices()[found].kind != VertexKind::kSwitch) {
      return refused("switch", "\"" + *event.of_switch + "\"",
                     "no switch is called so" + suggest_vertex(*graph, *event.of_switch));
    }
  }
  if (event.is_storm()) {
    if (const std::string why = why_no_storm(scenario, event); !why.empty()) {
      return refused("action", "\"storm\"", why);
    }
  }
  if (event.rate && event.rate->is_unlimited() && graph != nullptr) {
    return refused("rate", "\"unlimited\"", "every link of a network has a rate");
  }
  const bool packets = scenario.real_side || config.fabric.fidelity == FabricFidelity::kPacket;
  if (event.loss && !packets) {
    return refused("loss", std::to_string(*event.loss),
                   "only packets are lost, and fabric.fidelity is \"flow\"");
  }
  return "";
}

}  // namespace understudy
