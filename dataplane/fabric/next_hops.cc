#include "dataplane/fabric/next_hops.h"

#include <algorithm>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

/// No more than kMostPathsCounted.
uint64_t sum_of_ways(uint64_t a, uint64_t b) {
  return b < kMostPathsCounted - a ? a + b : kMostPathsCounted;
}
uint64_t product_of_ways(uint64_t a, uint64_t b) {
  if (b == 0) return 0;
  return a > kMostPathsCounted / b ? kMostPathsCounted : a * b;
}

}  // namespace

NextHops::NextHops(const Graph& graph, RouteChoice choice, uint64_t seed)
    : graph_(graph),
      choice_(choice),
      seed_(seed),
      routes_(graph, choice, seed),
      switch_index_(graph.vertices().size(), kNic),
      destinations_(graph.vertices().size()),
      rows_(graph.vertices().size()),
      ways_(choice == RouteChoice::kSpray ? graph.vertices().size() : 0),
      groups_(kGroupHead) {  // place 0 is kNoEntry: an empty group
  for (VertexId v = 0; v < graph.vertices().size(); ++v) {
    if (graph.vertices()[v].kind == VertexKind::kSwitch) {
      switch_index_[v] = static_cast<uint32_t>(switches_.size());
      switches_.push_back(v);
    } else if (graph.out(v).size() == 1) {
      switch_index_[v] = graph.out(v).front() | kOneLink;
    }
  }
  first_group_.resize(switches_.size(), kNoEntry);
}

void NextHops::learn(VertexId to) {
  Destination& d = destinations_[to];
  if (d.row != nullptr) return;
  const VertexId root = routes_.root_of(to);
  if (rows_[root].empty()) learn_root(to, root);
  d.root = root;
  d.row = rows_[root].data();
  if (root != to) learn_last(to, root);
  if (choice_ == RouteChoice::kSpray) {
    if (ways_[root].empty()) count_ways(to, root);
    d.ways = ways_[root].data();
  }
}

/// What its only switch does with packets for it.
void NextHops::learn_last(VertexId to, VertexId root) {
  Destination& d = destinations_[to];
  const auto cables = routes_.next_hops(root, to);
  d.cables = static_cast<uint32_t>(cables.size());
  d.last = entry_of(root, cables);
}

void NextHops::set_links(std::span<const LinkState> links) {
  routes_.set_links(links);
  std::vector<bool> again(rows_.size());
  for (VertexId to = 0; to < destinations_.size(); ++to) {
    const Destination& d = destinations_[to];
    if (d.row == nullptr) continue;
    if (!again[d.root]) {
      again[d.root] = true;
      learn_root(to, d.root);
      if (choice_ == RouteChoice::kSpray) count_ways(to, d.root);
    }
    if (d.root != to) learn_last(to, d.root);
  }
}

void NextHops::learn_root(VertexId to, VertexId root) {
  std::vector<uint32_t>& row = rows_[root];
  // One more, so that it is never empty. It stays where it is when it is worked out anew.
  row.resize(switches_.size() + 1);
  for (size_t i = 0; i < switches_.size(); ++i) {
    if (switches_[i] == root) continue;
    row[i] = entry_of(switches_[i], routes_.next_hops(switches_[i], to));
  }
}

/// How many ways lead from each switch to `root`: nearer ones are known first.
void NextHops::count_ways(VertexId to, VertexId root) {
  std::vector<uint64_t>& ways = ways_[root];
  ways.assign(switches_.size() + 1, 0);
  const std::vector<uint16_t> hops = hops_to(graph_, root, routes_.down());
  std::vector<VertexId> order;
  for (const VertexId v : switches_) {
    if (v != root && hops[v] != kUnreachable) order.push_back(v);
  }
  std::ranges::stable_sort(order, {}, [&](VertexId v) { return hops[v]; });
  if (switch_index_[root] < kNic) ways[switch_index_[root]] = 1;
  for (const VertexId v : order) {
    uint64_t sum = 0;
    for (const LinkId link : routes_.next_hops(v, to)) {
      const VertexId next = graph_.link(link).to;
      sum = sum_of_ways(sum, next == root ? 1 : ways[switch_index_[next]]);
    }
    ways[switch_index_[v]] = sum;
  }
}

/// Destinations that a switch reaches by the same links share their group.
uint32_t NextHops::entry_of(VertexId at, std::span<const LinkId> links) {
  if (links.empty()) return kNoEntry;
  if (links.size() == 1) return links.front() | kOneLink;
  uint32_t& first = first_group_[switch_index_[at]];
  for (uint32_t group = first; group != kNoEntry; group = groups_[group + 1]) {
    const auto* known = groups_.data() + group + kGroupHead;
    if (std::equal(links.begin(), links.end(), known, known + groups_[group])) return group;
  }
  const auto group = static_cast<uint32_t>(groups_.size());
  ASSERT_INVARIANT(group < kOneLink);
  groups_.push_back(static_cast<uint32_t>(links.size()));
  groups_.push_back(first);
  groups_.insert(groups_.end(), links.begin(), links.end());
  first = group;
  return group;
}

LinkId NextHops::pick(VertexId at, const LinkId* links, size_t n, Way& way) const {
  if (n == 0) return kNoLink;
  if (!way.numbered()) {
    if (choice_ == RouteChoice::kFirst) return links[0];
    return links[Routes::chosen(seed_, at, way.key, n)];
  }
  // Past the links whose paths all come before this one.
  size_t i = 0;
  for (; i + 1 < n; ++i) {
    const uint64_t below = ways_from(graph_.link(links[i]).to, way.destination());
    if (way.key < below) break;
    way.key -= below;
  }
  return links[i];
}

LinkId NextHops::from_nic(VertexId nic, Way& way) {
  const std::span<const LinkId> links = routes_.next_hops(nic, way.destination());
  if (links.size() == 1) return links.front();
  const LinkId link = pick(nic, links.data(), links.size(), way);
  return link == kNoLink ? first_uplink(nic) : link;
}

/// A NIC that knows no way sends by its first cable.
LinkId NextHops::first_uplink(VertexId nic) const {
  const std::span<const LinkId> out = graph_.out(nic);
  const auto leads_up = [&](LinkId link) {
    return graph_.vertices()[graph_.link(link).to].kind == VertexKind::kSwitch;
  };
  const auto found = std::ranges::find_if(out, leads_up);
  return found == out.end() ? kNoLink : *found;
}

uint64_t NextHops::ways_from(VertexId at, VertexId to) const {
  if (at == to) return 1;
  const Destination& d = destinations_[to];
  const uint64_t to_root = at == d.root ? 1 : d.ways[switch_index_[at]];
  return product_of_ways(to_root, d.cables);
}

uint64_t NextHops::paths(VertexId from, VertexId to) {
  uint64_t sum = 0;
  for (const LinkId link : routes_.next_hops(from, to)) {
    sum = sum_of_ways(sum, ways_from(graph_.link(link).to, to));
  }
  return sum;
}

}  // namespace understudy
