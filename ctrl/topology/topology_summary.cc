#include "ctrl/topology/topology_summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ctrl/topology/max_flow.h"

namespace understudy {
namespace {

constexpr size_t kMostStems = 4;       ///< names of switches that make a tier's groups
constexpr size_t kMostPlaces = 2048;   ///< destinations of the longest path that are looked at
constexpr size_t kMostPairs = 20'000;  ///< of equally many links whose latency is compared

/// "leaf12" -> "leaf", "dim1.3" -> "dim1", "w3/router" -> "router", "p2-tor7" -> "p*-tor".
std::string stem_of(const std::string& name) {
  std::string stem = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  while (!stem.empty() && stem.back() >= '0' && stem.back() <= '9') stem.pop_back();
  while (!stem.empty() && (stem.back() == '.' || stem.back() == '-' || stem.back() == '_')) {
    stem.pop_back();
  }
  std::string group;
  for (size_t i = 0; i < stem.size(); ++i) {
    size_t end = i;
    while (end < stem.size() && stem[end] >= '0' && stem[end] <= '9') ++end;
    const bool number = end != i && end < stem.size() && (stem[end] == '-' || stem[end] == '_');
    group += number ? '*' : stem[i];
    if (number) i = end - 1;
  }
  return group.empty() ? name : group;
}

std::vector<VertexId> all_nics(const Topology& topology) {
  std::vector<VertexId> all;
  for (const auto& nics : topology.nics) all.insert(all.end(), nics.begin(), nics.end());
  return all;
}

bool inside_node(const Vertex& vertex) {
  return vertex.kind == VertexKind::kGpu ||
         (vertex.kind == VertexKind::kSwitch && vertex.tier == 0);
}

void add_capacities(const Graph& graph, const std::vector<uint32_t>& group_of,
                    std::vector<VertexGroup>& groups) {
  std::vector<bool> first(groups.size(), true);
  for (VertexId v = 0; v < graph.vertices().size(); ++v) {
    const Vertex& vertex = graph.vertices()[v];
    if (vertex.kind != VertexKind::kSwitch || vertex.tier == 0) continue;
    uint64_t down = 0, up = 0;
    bool sideways = false;
    for (LinkId out : graph.out(v)) {
      const uint8_t tier = graph.vertices()[graph.link(out).to].tier;
      if (tier < vertex.tier) down += graph.link(reverse(out)).rate.bps();
      sideways = sideways || tier == vertex.tier;
      if (tier > vertex.tier) up += graph.link(out).rate.bps();
    }
    if (sideways) continue;  // a router's way is not up
    VertexGroup& group = groups[group_of[v]];
    using Wide = unsigned __int128;
    const Wide here = Wide{down} * group.up_bps, there = Wide{group.down_bps} * up;
    if (!first[group_of[v]]) group.uniform = group.uniform && here == there;
    if (first[group_of[v]] || here > there) {
      group.down_bps = down;
      group.up_bps = up;
    }
    first[group_of[v]] = false;
  }
}

std::vector<CableGroup> group_cables(const Graph& graph, const std::vector<uint32_t>& group_of) {
  std::map<std::pair<uint32_t, uint32_t>, CableGroup> found;
  for (LinkId id = 0; id < graph.links().size(); ++id) {
    const GraphLink& link = graph.link(id);
    const auto [a, b] = std::minmax(group_of[link.from], group_of[link.to]);
    const auto [at, is_new] = found.try_emplace({a, b});
    CableGroup& group = at->second;
    if (is_new) group = {a, b, 0, link.rate, link.rate, link.latency, link.latency};
    group.cables += 1 - id % 2;
    group.slowest = std::min(group.slowest, link.rate);
    group.fastest = std::max(group.fastest, link.rate);
    group.shortest = std::min(group.shortest, link.latency);
    group.longest = std::max(group.longest, link.latency);
  }
  std::vector<CableGroup> all;
  all.reserve(found.size());
  for (const auto& [key, group] : found) all.push_back(group);
  return all;
}

/// NICs are sources and sinks without limits of their own, so their cables can be added up where
/// they meet a switch, and parallel cables too.
void find_bisection(const Topology& topology, TopologySummary& summary) {
  const Graph& graph = topology.graph;
  const std::vector<VertexId> nics = all_nics(topology);
  const auto source = static_cast<uint32_t>(graph.vertices().size());
  const uint32_t sink = source + 1;
  std::vector<uint32_t> stands_for(source);
  for (uint32_t v = 0; v < source; ++v) stands_for[v] = v;
  for (size_t i = 0; i < nics.size(); ++i)
    stands_for[nics[i]] = i < nics.size() / 2 ? source : sink;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> capacities;
  for (const GraphLink& link : graph.links()) {
    if (inside_node(graph.vertices()[link.from]) || inside_node(graph.vertices()[link.to]))
      continue;
    const uint32_t from = stands_for[link.from], to = stands_for[link.to];
    if (from == source) summary.half_bps += link.rate.bps();
    if (from != sink && to != source && from != to) capacities[{from, to}] += link.rate.bps();
  }
  MaxFlow flow(sink + 1);
  for (const auto& [ends, bps] : capacities) flow.add(ends.first, ends.second, bps);
  summary.bisection_bps = flow.solve(source, sink);
}

Duration latency_of(const Graph& graph, const std::vector<LinkId>& path) {
  Duration sum;
  for (LinkId link : path) sum += graph.link(link).latency;
  return sum;
}

/// NICs that hang on the same vertices have the same paths: of each such place the two NICs with
/// the longest cables.
std::vector<std::vector<VertexId>> find_places(const Topology& topology) {
  const Graph& graph = topology.graph;
  std::map<std::set<VertexId>, std::vector<VertexId>> by_neighbours;
  for (VertexId nic : all_nics(topology)) {
    std::set<VertexId> neighbours;
    for (LinkId out : graph.out(nic)) {
      const VertexId to = graph.link(out).to;
      if (!inside_node(graph.vertices()[to])) neighbours.insert(to);
    }
    by_neighbours[neighbours].push_back(nic);
  }
  const auto cable = [&](VertexId nic) {
    Duration longest;
    for (LinkId out : graph.out(nic)) longest = std::max(longest, graph.link(out).latency);
    return longest;
  };
  std::vector<std::vector<VertexId>> places;
  for (auto& [neighbours, nics] : by_neighbours) {
    std::stable_sort(nics.begin(), nics.end(),
                     [&](VertexId a, VertexId b) { return cable(a) > cable(b); });
    nics.resize(std::min<size_t>(nics.size(), 2));
    places.push_back(nics);
  }
  std::sort(places.begin(), places.end());
  return places;
}

LongestPath find_longest(const Topology& topology) {
  const std::vector<std::vector<VertexId>> places = find_places(topology);
  LongestPath longest;
  longest.places = places.size();
  longest.seen = std::min(places.size(), kMostPlaces);
  std::vector<std::pair<VertexId, VertexId>> pairs;
  for (size_t i = 0; i < longest.seen; ++i) {
    const std::vector<VertexId>& place = places[i * places.size() / longest.seen];
    const VertexId to = place.back();
    const std::vector<uint16_t> hops = hops_to(topology.graph, to);
    for (const std::vector<VertexId>& other : places) {
      const VertexId from = other.front();
      if (from == to || hops[from] == kUnreachable || hops[from] < longest.links) continue;
      if (hops[from] > longest.links) pairs.clear();
      longest.links = hops[from];
      if (pairs.size() < kMostPairs) pairs.emplace_back(from, to);
    }
  }
  Routes routes(topology.graph, RouteChoice::kFirst, 0, topology.static_routes);
  std::vector<LinkId> path;
  for (const auto& [from, to] : pairs) {
    const std::vector<LinkId> one = routes.path(from, to, 0);
    const Duration latency = latency_of(topology.graph, one);
    if (!path.empty() && latency <= longest.latency) continue;
    path = one;
    longest.latency = latency;
    longest.alternatives = routes.path_count(from, to);
  }
  for (size_t i = 0; i < path.size(); ++i) {
    const GraphLink& link = topology.graph.link(path[i]);
    if (i == 0) longest.names.push_back(topology.graph.vertices()[link.from].name);
    longest.names.push_back(topology.graph.vertices()[link.to].name);
  }
  return longest;
}

}  // namespace

std::vector<uint32_t> group_vertices(const Graph& graph, std::vector<VertexGroup>& groups) {
  std::map<uint8_t, std::set<std::string>> stems;  // by tier
  for (const Vertex& vertex : graph.vertices()) {
    if (vertex.kind == VertexKind::kSwitch) stems[vertex.tier].insert(stem_of(vertex.name));
  }
  const auto name_of = [&](const Vertex& vertex) -> std::string {
    if (vertex.kind == VertexKind::kNic) return "NIC";
    if (vertex.kind == VertexKind::kGpu) return "GPU";
    if (stems[vertex.tier].size() > kMostStems) return "tier " + std::to_string(vertex.tier);
    return stem_of(vertex.name);
  };
  // NICs first, then tier by tier.
  std::map<std::pair<int, std::string>, uint32_t> order;
  for (const Vertex& vertex : graph.vertices()) {
    const bool nic = vertex.kind == VertexKind::kNic;
    ++order[{nic ? -1 : vertex.tier, name_of(vertex)}];
  }
  groups.clear();
  std::map<std::pair<int, std::string>, uint32_t> position;
  for (const auto& [key, count] : order) {
    position[key] = static_cast<uint32_t>(groups.size());
    groups.push_back({key.second, static_cast<uint8_t>(std::max(0, key.first)), count, 0, 0, true});
  }
  std::vector<uint32_t> group_of;
  for (const Vertex& vertex : graph.vertices()) {
    const bool nic = vertex.kind == VertexKind::kNic;
    group_of.push_back(position.at({nic ? -1 : vertex.tier, name_of(vertex)}));
  }
  return group_of;
}

TopologySummary summarize(const Config& config, const Topology& topology) {
  TopologySummary summary;
  summary.nodes = config.nodes.size();
  for (const NodeConfig& node : config.nodes) {
    summary.nics += node.nics.size();
    summary.gpus += node.gpus;
  }
  const std::vector<uint32_t> group_of = group_vertices(topology.graph, summary.groups);
  add_capacities(topology.graph, group_of, summary.groups);
  summary.cables = group_cables(topology.graph, group_of);
  find_bisection(topology, summary);
  summary.longest = find_longest(topology);
  return summary;
}

}  // namespace understudy
