#include "ctrl/network/deadlock.h"

namespace understudy {

std::vector<std::string> link_names(const Graph& graph, std::span<const LinkId> links) {
  std::vector<std::string> names;
  for (const LinkId link : links) names.push_back(graph.link_name(link));
  return names;
}

std::string deadlock_text(const Graph& graph, std::span<const LinkId> cycle) {
  std::string text = "deadlock, each of these links is paused by the switch behind it:";
  for (const std::string& name : link_names(graph, cycle)) text += "\n  " + name;
  return text;
}

Result<void> find_no_deadlock(const std::string& heading, const Graph& graph,
                              const Network& network, DeadlockSearch& search) {
  const auto cycle = search.find(network);
  if (cycle.empty()) return {};
  return fail(heading + ": " + deadlock_text(graph, cycle));
}

}  // namespace understudy
