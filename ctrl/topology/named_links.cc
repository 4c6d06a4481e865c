#include "ctrl/topology/named_links.h"

#include <algorithm>

#include "ctrl/config/suggest.h"

namespace understudy {

bool matches(std::string_view pattern, std::string_view text) {
  // Greedy with one way back: to the last '*', which then takes one character more.
  size_t p = 0, t = 0, star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string suggest_vertex(const Graph& graph, const std::string& name) {
  std::vector<std::string_view> known;
  for (const Vertex& vertex : graph.vertices()) known.push_back(vertex.name);
  return suggest(name, known);
}

std::vector<LinkId> links_called(const Graph& graph, const LinkName& name) {
  const std::vector<Vertex>& vertices = graph.vertices();
  std::vector<bool> from, to;
  for (const Vertex& v : vertices) {
    from.push_back(matches(name.from, v.name));
    to.push_back(matches(name.to, v.name));
  }
  std::vector<LinkId> links;
  for (LinkId id = 0; id < graph.links().size(); ++id) {
    const GraphLink& l = graph.link(id);
    if ((from[l.from] && to[l.to]) || (name.both && from[l.to] && to[l.from])) links.push_back(id);
  }
  return links;
}

std::string why_no_link(const Graph& graph, const LinkName& name) {
  for (const std::string& end : {name.from, name.to}) {
    const auto is_end = [&](const Vertex& v) { return matches(end, v.name); };
    if (std::ranges::any_of(graph.vertices(), is_end)) continue;
    return "nothing is called \"" + end + "\"" + suggest_vertex(graph, end);
  }
  return "no cable matches";
}

}  // namespace understudy
