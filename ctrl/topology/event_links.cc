#include "ctrl/topology/event_links.h"

#include "ctrl/topology/named_links.h"

namespace understudy {

std::vector<LinkId> links_of(const EventConfig& event, const Topology& topology) {
  if (event.link) return links_called(topology.graph, *event.link);
  if (event.of_switch) return links_called(topology.graph, {*event.of_switch, "*", true});
  std::vector<LinkId> cables = topology.cables(event.node);
  if (event.nic) cables = topology.graph.uplinks(topology.nics[event.node][*event.nic]);
  std::vector<LinkId> links;
  for (const LinkId link : cables) {
    if (!event.is_storm()) links.push_back(link);
    links.push_back(reverse(link));
  }
  return links;
}

}  // namespace understudy
