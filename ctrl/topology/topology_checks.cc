// What is laid over the graph once it stands: overrides, static routes, and the check that all
// nodes reach one another.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ctrl/config/suggest.h"
#include "ctrl/topology/named_links.h"
#include "ctrl/topology/topology_builder.h"

namespace understudy {
namespace {

void apply(GraphLink& link, const LinkOverrideConfig& change) {
  if (change.rate) link.rate = *change.rate;
  if (change.latency) link.latency = *change.latency;
  if (change.loss) link.loss = *change.loss;
  if (!change.down.empty()) link.down = change.down;
}

/// Turns a route's names into vertices and follows its cables.
class RouteResolver {
 public:
  RouteResolver(TopologyBuilder& builder, const StaticRouteConfig& route)
      : builder_(builder), graph_(builder.graph()), config_(route) {}

  void run() {
    const std::vector<VertexId> from = nics("from", config_.from);
    const std::vector<VertexId> to = nics("to", config_.to);
    const bool via = resolve_via();
    if (from.empty() || to.empty() || !via) return;
    for (size_t i = 0; i + 1 < route_.via.size(); ++i) {
      if (!require_cable(route_.via[i], route_.via[i + 1])) return;
    }
    // Each end only against the via next to it: pairs are too many.
    for (VertexId v : from) {
      if (!require_cable(v, route_.via.front())) return;
    }
    for (VertexId v : to) {
      if (!require_cable(route_.via.back(), v)) return;
    }
    route_.from.assign(graph_.vertices().size(), false);
    route_.to.assign(graph_.vertices().size(), false);
    for (VertexId v : from) route_.from[v] = true;
    for (VertexId v : to) route_.to[v] = true;
    builder_.topology().static_routes.push_back(std::move(route_));
  }

 private:
  std::vector<VertexId> nics(std::string_view key, const std::string& name) {
    std::vector<VertexId> found = builder_.matching(name);
    std::erase_if(found, [&](VertexId v) { return graph_.vertices()[v].kind != VertexKind::kNic; });
    if (found.empty()) {
      builder_.error(config_.line, "route." + std::string(key),
                     "\"" + name + "\"" + suggest_vertex(graph_, name),
                     "there is no NIC of this name");
    }
    return found;
  }

  bool resolve_via() {
    std::set<VertexId> seen;
    for (const std::string& name : config_.via) {
      const auto found = builder_.topology().by_name.find(name);
      if (found == builder_.topology().by_name.end()) {
        return wrong("\"" + name + "\"" + suggest_vertex(graph_, name),
                     "there is no switch of this name");
      }
      if (graph_.vertices()[found->second].kind != VertexKind::kSwitch) {
        return wrong("\"" + name + "\"", "only switches forward");
      }
      if (!seen.insert(found->second).second) {
        return wrong("a cycle: " + cycle(name), "a route passes a switch once");
      }
      route_.via.push_back(found->second);
    }
    return true;
  }

  /// From the first visit of `name` to the second.
  std::string cycle(const std::string& name) const {
    auto at = std::find(config_.via.begin(), config_.via.end(), name);
    std::string text = *at;
    do {
      text += " -> " + *++at;
    } while (*at != name);
    return text;
  }

  bool require_cable(VertexId a, VertexId b) {
    const auto& out = graph_.out(a);
    if (std::any_of(out.begin(), out.end(), [&](LinkId l) { return graph_.link(l).to == b; })) {
      return true;
    }
    return wrong(graph_.vertices()[a].name + " -> " + graph_.vertices()[b].name,
                 "there is no cable between them");
  }

  bool wrong(std::string found, std::string allowed) {
    builder_.error(config_.line, "route.via", std::move(found), std::move(allowed));
    return false;
  }

  TopologyBuilder& builder_;
  const Graph& graph_;
  const StaticRouteConfig& config_;
  StaticRoute route_;
};

/// Parts of the network between which switches forward: by vertex, the smallest of its part. NICs
/// are parts of their own.
std::vector<VertexId> switch_parts(const Graph& graph) {
  std::vector<VertexId> part(graph.vertices().size());
  std::iota(part.begin(), part.end(), VertexId{0});
  const auto find = [&](VertexId v) {
    while (part[v] != v) v = part[v] = part[part[v]];
    return v;
  };
  for (const GraphLink& link : graph.links()) {
    if (graph.vertices()[link.from].kind != VertexKind::kSwitch ||
        graph.vertices()[link.to].kind != VertexKind::kSwitch) {
      continue;
    }
    const VertexId a = find(link.from), b = find(link.to);
    part[std::max(a, b)] = std::min(a, b);
  }
  for (VertexId v = 0; v < part.size(); ++v) part[v] = find(v);
  return part;
}

/// Where a NIC's cables of the network lead: parts of switches; and NICs that are joined to others
/// directly, by their cables.
std::set<uint64_t> places_of(const Graph& graph, const std::vector<VertexId>& parts, VertexId nic) {
  std::set<uint64_t> places;
  for (LinkId out : graph.out(nic)) {
    const VertexId to = graph.link(out).to;
    const Vertex& vertex = graph.vertices()[to];
    if (vertex.kind == VertexKind::kNic) {
      places.insert((uint64_t{1} << 32) + std::min(out, reverse(out)));
    } else if (vertex.kind == VertexKind::kSwitch && vertex.tier != 0) {
      places.insert(parts[to]);
    }
  }
  return places;
}

bool share(const std::set<uint64_t>& a, const std::set<uint64_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](uint64_t place) { return b.contains(place); });
}

}  // namespace

void apply_overrides(TopologyBuilder& builder, const TopologyConfig& topology) {
  Graph& graph = builder.graph();
  for (const LinkOverrideConfig& change : topology.overrides) {
    const std::vector<LinkId> links = links_called(graph, change.link);
    for (const LinkId link : links) apply(graph.link(link), change);
    if (!links.empty()) continue;
    builder.error(change.line, "override.link", "\"" + text_of(change.link) + "\"",
                  why_no_link(graph, change.link));
  }
}

void resolve_routes(TopologyBuilder& builder, const TopologyConfig& topology) {
  for (const StaticRouteConfig& route : topology.routes) RouteResolver(builder, route).run();
}

void check_reachable(TopologyBuilder& builder, unsigned line) {
  const Graph& graph = builder.graph();
  const std::vector<VertexId> parts = switch_parts(graph);
  size_t most = 0;
  for (const auto& nics : builder.topology().nics) most = std::max(most, nics.size());
  for (size_t k = 0; k < most; ++k) {
    // NICs that lead to the same places reach the same; few differ.
    std::map<std::set<uint64_t>, VertexId> kinds;
    for (const auto& nics : builder.topology().nics) {
      if (k >= nics.size()) continue;
      const auto places = places_of(graph, parts, nics[k]);
      const auto [other, is_new] = kinds.emplace(places, nics[k]);
      VertexId lost = !is_new && places.empty() ? other->second : kNoVertex;
      for (auto it = kinds.begin(); is_new && lost == kNoVertex && it != kinds.end(); ++it) {
        if (it->second != nics[k] && !share(places, it->first)) lost = it->second;
      }
      if (lost == kNoVertex) continue;
      builder.error(line, "kind",
                    "no path between " + graph.vertices()[lost].name + " and " +
                        graph.vertices()[nics[k]].name,
                    "every node must reach every other on each of its NICs' rails");
      return;
    }
  }
}

}  // namespace understudy
