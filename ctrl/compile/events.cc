#include "ctrl/compile/events.h"

#include "ctrl/config/read/load.h"
#include "ctrl/topology/named_links.h"

namespace understudy {

std::string why_not(const Scenario& scenario, const EventConfig& event) {
  const Config& config = scenario.config;
  const Graph* graph = scenario.topology == nullptr ? nullptr : &scenario.topology->graph;
  const auto refused = [&](const char* key, const std::string& found, std::string allowed) {
    return ConfigError{config.path, event.line, key, found, std::move(allowed)}.text();
  };
  if (event.is_of_node() && config.nodes[event.node].real) {
    return refused("event.node", "\"" + config.nodes[event.node].name + "\"",
                   "a real node keeps its own time: only emulated ones can be paused");
  }
  if (event.link && graph == nullptr) {
    return refused("event.link", "\"" + text_of(*event.link) + "\"",
                   "there is no network of switches: expected the name of a node");
  }
  if (event.link && links_called(*graph, *event.link).empty()) {
    return refused("event.link", "\"" + text_of(*event.link) + "\"",
                   why_no_link(*graph, *event.link));
  }
  if (event.rate && event.rate->is_unlimited() && graph != nullptr) {
    return refused("event.rate", "\"unlimited\"", "every link of a network has a rate");
  }
  const bool packets = scenario.real_side || config.fabric.fidelity == FabricFidelity::kPacket;
  if (event.loss && !packets) {
    return refused("event.loss", std::to_string(*event.loss),
                   "only packets are lost, and fabric.fidelity is \"flow\"");
  }
  return "";
}

}  // namespace understudy
