#include "ctrl/network/closed_links.h"

#include <algorithm>

#include "ctrl/network/link_changes.h"

namespace understudy {
namespace {

constexpr size_t kMostNamed = 8;

}  // namespace

std::vector<std::string> closed_links(const Graph& graph, const Network& network, Time now) {
  std::vector<std::string> names;
  for (LinkId link = 0; link < graph.links().size(); ++link) {
    if (network.is_closed(link, now)) names.push_back(graph.link_name(link));
  }
  return names;
}

std::vector<std::string> closed_nodes(const Config& config, const std::vector<EventConfig>& events,
                                      Time now) {
  struct State {
    bool down = false, paused = false;
    double loss = 0;
  };
  std::vector<State> states(config.nodes.size());
  std::vector<std::pair<NodeId, RateChange>> steps;
  for (const EventConfig& event : events) {
    for (const RateChange& step : steps_of(event)) {
      if (step.at <= now) steps.emplace_back(event.node, step);
    }
  }
  std::ranges::stable_sort(steps, {}, [](const auto& step) { return step.second.at; });
  for (const auto& [node, step] : steps) {
    State& state = states[node];
    state.down = step.down.value_or(state.down);
    state.paused = step.paused.value_or(state.paused);
    state.loss = step.loss.value_or(state.loss);
  }
  std::vector<std::string> names;
  for (NodeId node = 0; node < states.size(); ++node) {
    const State& s = states[node];
    if (s.down || s.paused || s.loss >= 1) names.push_back(config.nodes[node].name);
  }
  return names;
}

Time last_known_outage(const Graph& graph) {
  Time last;
  for (const GraphLink& link : graph.links()) {
    for (const GraphLink::Outage& outage : link.down) {
      last = std::max(last, outage.to.is_never() ? outage.from : outage.to);
    }
  }
  return last;
}

std::string flows_never_end(size_t left, size_t all) {
  return std::to_string(left) + " of " + std::to_string(all) + " flows never end: ";
}

std::string closed_links_text(const std::vector<std::string>& links) {
  if (links.empty()) return "";
  std::string text = "nothing comes through ";
  for (size_t i = 0; i < std::min(links.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + links[i];
  }
  if (links.size() > kMostNamed) {
    text += " and " + std::to_string(links.size() - kMostNamed) + " more links";
  }
  return text;
}

}  // namespace understudy
