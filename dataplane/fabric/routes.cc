#include "dataplane/fabric/routes.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t flow_hash(VertexId from, VertexId to, uint64_t flow) {
  return mix(mix((uint64_t{from} << 32) | to) ^ flow);
}

std::vector<uint16_t> hops_to(const Graph& graph, VertexId to, std::span<const uint8_t> down) {
  std::vector<uint16_t> hops(graph.vertices().size(), kUnreachable);
  std::vector<VertexId> queue{to};
  hops[to] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    const VertexId at = queue[i];
    if (at != to && graph.vertices()[at].kind != VertexKind::kSwitch) continue;
    for (LinkId out : graph.out(at)) {
      if (!down.empty() && down[reverse(out)] != 0) continue;
      const VertexId before = graph.link(out).to;  // its cable leads here too
      if (hops[before] != kUnreachable || hops[at] + 1 >= kUnreachable) continue;
      hops[before] = static_cast<uint16_t>(hops[at] + 1);
      queue.push_back(before);
    }
  }
  return hops;
}

Routes::Routes(const Graph& graph, RouteChoice choice, uint64_t seed,
               std::vector<StaticRoute> static_routes)
    : graph_(graph),
      choice_(choice),
      seed_(seed),
      static_routes_(std::move(static_routes)),
      switch_index_(graph.vertices().size(), kNotSwitch),
      distances_(graph.vertices().size()) {
  uint32_t switches = 0;
  size_t most = 0;
  for (VertexId v = 0; v < graph.vertices().size(); ++v) {
    if (graph.vertices()[v].kind == VertexKind::kSwitch) switch_index_[v] = switches++;
    most = std::max(most, graph.out(v).size());
  }
  found_.reserve(most);
}

void Routes::set_links(std::span<const LinkState> links) {
  down_.resize(graph_.links().size());
  for (const LinkState& state : links) down_[state.link] = state.up ? 0 : 1;
  for (std::vector<uint16_t>& kept : distances_) kept.clear();
}

const StaticRoute* Routes::static_route(VertexId from, VertexId to) const {
  for (size_t i = static_routes_.size(); i-- > 0;) {
    if (static_routes_[i].from[from] && static_routes_[i].to[to]) return &static_routes_[i];
  }
  return nullptr;
}

VertexId Routes::root_of(VertexId to) const {
  VertexId root = kNoVertex;
  for (LinkId out : graph_.out(to)) {
    const VertexId next = graph_.link(out).to;
    if (switch_index_[next] == kNotSwitch || (root != kNoVertex && root != next)) return to;
    root = next;
  }
  return root == kNoVertex ? to : root;
}

const std::vector<uint16_t>& Routes::distances(VertexId root) {
  std::vector<uint16_t>& kept = distances_[root];
  if (kept.empty()) {
    const std::vector<uint16_t> hops = hops_to(graph_, root, down_);
    for (VertexId v = 0; v < hops.size(); ++v) {
      if (switch_index_[v] != kNotSwitch) kept.push_back(hops[v]);
    }
  }
  return kept;
}

std::span<const LinkId> Routes::next_hops(VertexId at, VertexId to) {
  found_.clear();
  if (at == to) return found_;
  const VertexId root = root_of(to);
  if (at == root) {  // a switch, and the destination hangs on it
    for (LinkId out : graph_.out(at)) {
      if (graph_.link(out).to == to && !avoids(out)) found_.push_back(out);
    }
    return found_;
  }
  const std::vector<uint16_t>& kept = distances(root);
  uint16_t nearest = kUnreachable;
  for (LinkId out : graph_.out(at)) {
    const VertexId next = graph_.link(out).to;
    const uint32_t index = switch_index_[next];
    if (index == kNotSwitch && next != root) continue;
    const uint16_t left = next == root ? uint16_t{0} : kept[index];
    if (left > nearest || left == kUnreachable || avoids(out)) continue;
    if (left < nearest) found_.clear();
    nearest = left;
    found_.push_back(out);
  }
  return found_;
}

std::span<const LinkId> Routes::choices(VertexId at, VertexId to, const StaticRoute* route,
                                        size_t hop) {
  if (route == nullptr) return next_hops(at, to);
  const VertexId next = hop < route->via.size() ? route->via[hop] : to;
  found_.clear();
  for (LinkId out : graph_.out(at)) {
    if (graph_.link(out).to == next) found_.push_back(out);
  }
  return found_;
}

size_t Routes::chosen(uint64_t seed, VertexId at, uint64_t hash, size_t n) {
  return static_cast<size_t>(((mix(hash ^ mix(seed + at)) >> 32) * n) >> 32);
}

size_t Routes::choose(VertexId at, uint64_t hash, size_t n) const {
  if (choice_ == RouteChoice::kFirst || n == 1) return 0;
  return chosen(seed_, at, hash, n);
}

/// False where the way ends before `to`.
template <typename Take>
bool Routes::walk(VertexId from, VertexId to, uint64_t hash, const Take& take) {
  const StaticRoute* route = static_route(from, to);
  VertexId at = from;
  for (size_t hop = 0; at != to; ++hop) {
    const std::span<const LinkId> next = choices(at, to, route, hop);
    if (next.empty()) return false;
    const LinkId link = next[choose(at, hash, next.size())];
    take(link);
    at = graph_.link(link).to;
  }
  return true;
}

std::vector<LinkId> Routes::path(VertexId from, VertexId to, uint64_t hash) {
  std::vector<LinkId> links;
  const bool there = walk(from, to, hash, [&](LinkId link) { links.push_back(link); });
  if (!there) links.clear();
  return links;
}

size_t Routes::path(VertexId from, VertexId to, uint64_t hash, LinkId* links) {
  size_t n = 0;
  return walk(from, to, hash, [&](LinkId link) { links[n++] = link; }) ? n : 0;
}

uint64_t Routes::count_ways(VertexId at, VertexId to, const StaticRoute* route, size_t hop,
                            Ways& ways) {
  if (at == to) return 1;
  if (const auto known = ways.find(at); known != ways.end()) return known->second;
  const std::span<const LinkId> next = choices(at, to, route, hop);
  uint64_t sum = 0;
  for (LinkId link : std::vector<LinkId>(next.begin(), next.end())) {
    const uint64_t more = count_ways(graph_.link(link).to, to, route, hop + 1, ways);
    sum = more < kMostPathsCounted - sum ? sum + more : kMostPathsCounted;
  }
  return ways[at] = sum;
}

uint64_t Routes::path_count(VertexId from, VertexId to) {
  if (from == to) return 0;
  Ways ways;
  return count_ways(from, to, static_route(from, to), 0, ways);
}

std::vector<std::vector<LinkId>> Routes::paths(VertexId from, VertexId to, size_t limit) {
  std::vector<std::vector<LinkId>> all;
  if (from == to) return all;
  const StaticRoute* route = static_route(from, to);
  Ways ways;
  const uint64_t total = count_ways(from, to, route, 0, ways);
  const uint64_t wanted = std::min<uint64_t>(total, limit);
  for (uint64_t i = 0; i < wanted; ++i) {
    // Path number `rank` of all: at each vertex, skip the links whose paths all come before it.
    auto rank = static_cast<uint64_t>(static_cast<unsigned __int128>(total) * i / wanted);
    std::vector<LinkId>& links = all.emplace_back();
    for (VertexId at = from; at != to; at = graph_.link(links.back()).to) {
      for (LinkId link : choices(at, to, route, links.size())) {
        const VertexId next = graph_.link(link).to;
        const uint64_t below = next == to ? 1 : ways.at(next);
        if (rank < below) {
          links.push_back(link);
          break;
        }
        rank -= below;
      }
    }
  }
  return all;
}

}  // namespace understudy
