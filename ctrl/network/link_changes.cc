#include "ctrl/network/link_changes.h"

#include "ctrl/topology/named_links.h"

namespace understudy {

std::vector<RateChange> steps_of(const EventConfig& event) {
  if (event.is_of_traffic()) return {};
  RateChange change{
      .at = event.at, .rate = event.rate, .latency = event.latency, .loss = event.loss};
  std::optional<bool>& stopped = event.is_of_node() ? change.paused : change.down;
  if (event.action) {
    stopped = event.action == EventAction::kDown || event.action == EventAction::kPause;
  }
  if (!event.lasts) return {change};
  RateChange end{.at = event.at + *event.lasts};
  (event.is_of_node() ? end.paused : end.down) = false;
  return {change, end};
}

std::vector<LinkChange> capture_notes(const EventConfig& event) {
  std::vector<LinkChange> notes;
  if (event.link) return notes;
  for (const RateChange& step : steps_of(event)) {
    notes.push_back({.at = step.at,
                     .node = event.node,
                     .rate = step.rate,
                     .latency = step.latency,
                     .down = step.down,
                     .paused = step.paused,
                     .loss = step.loss});
  }
  return notes;
}

std::vector<LinkId> links_of(const EventConfig& event, const Topology& topology) {
  if (event.link) return links_called(topology.graph, *event.link);
  std::vector<LinkId> links;
  for (const LinkId link : topology.cables(event.node)) {
    links.push_back(link);
    links.push_back(reverse(link));
  }
  return links;
}

}  // namespace understudy
