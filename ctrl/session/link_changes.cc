#include "ctrl/session/link_changes.h"

#include <algorithm>

namespace understudy {

std::vector<LinkId> cables_of(const Topology& topology, NodeId node) {
  std::vector<LinkId> cables;
  for (const VertexId nic : topology.nics[node]) {
    for (const LinkId link : topology.graph.uplinks(nic)) cables.push_back(link);
  }
  return cables;
}

std::vector<RateChange> link_changes(const Config& config, const Topology& topology) {
  std::vector<RateChange> changes;
  for (const EventConfig& event : config.events) {
    for (const LinkId link : cables_of(topology, event.node)) {
      changes.push_back({event.at, link, event.rate, event.latency});
      changes.push_back({event.at, reverse(link), event.rate, event.latency});
    }
  }
  std::ranges::stable_sort(changes, {}, &RateChange::at);
  return changes;
}

}  // namespace understudy
