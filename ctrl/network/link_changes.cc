#include "ctrl/network/link_changes.h"

namespace understudy {
namespace {

/// What the event's action stops is stopped from then on, or not.
void set(const EventConfig& event, RateChange& change, bool stopped) {
  if (event.is_storm()) {
    const uint8_t all = 0xff;
    const auto priorities = event.priority ? static_cast<uint8_t>(1u << *event.priority) : all;
    change.storm = PfcStorm{stopped, priorities, event.quanta};
  } else if (event.of_switch) {
    change.from_dead = change.to_dead = stopped;
  } else {
    (event.is_of_node() ? change.paused : change.down) = stopped;
  }
}

}  // namespace

std::vector<RateChange> steps_of(const EventConfig& event) {
  if (event.is_of_traffic()) return {};
  RateChange change{
      .at = event.at, .rate = event.rate, .latency = event.latency, .loss = event.loss};
  if (event.action) {
    set(event, change, event.action != EventAction::kUp && event.action != EventAction::kResume);
  }
  if (event.is_storm() && event.lasts) change.storm->end = event.at + *event.lasts;
  if (!event.lasts) return {change};
  RateChange end{.at = event.at + *event.lasts};
  set(event, end, false);
  return {change, end};
}

std::vector<RateChange> changes_of(const EventConfig& event, const RateChange& step,
                                   const Topology& topology) {
  std::vector<RateChange> changes;
  for (const LinkId link : links_of(event, topology)) {
    RateChange& change = changes.emplace_back(step);
    change.link = link;
    if (!event.of_switch) continue;
    const VertexId dead = topology.graph.find(*event.of_switch);
    if (topology.graph.link(link).from != dead) change.from_dead.reset();
    if (topology.graph.link(link).to != dead) change.to_dead.reset();
  }
  return changes;
}

std::vector<LinkChange> capture_notes(const EventConfig& event) {
  std::vector<LinkChange> notes;
  if (!event.is_of_nodes_links()) return notes;
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

}  // namespace understudy
