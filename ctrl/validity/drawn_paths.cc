#include "ctrl/validity/drawn_paths.h"

#include <algorithm>
#include <map>

namespace understudy {
namespace {

constexpr size_t kMostPairs = 1 << 16;

double rate_of(const Graph& graph, LinkId link) {
  return static_cast<double>(graph.link(link).rate.bps());
}

/// Bit/s of a NIC's cables to the network.
double nic_rate(const Graph& graph, VertexId nic) {
  double rate = 0;
  for (const LinkId link : graph.uplinks(nic)) rate += rate_of(graph, link);
  return rate;
}

/// A number of things, each once, that is mostly small.
class Distinct {
 public:
  bool add(VertexId vertex) {
    const auto place = std::ranges::lower_bound(seen_, vertex);
    if (place != seen_.end() && *place == vertex) return false;
    seen_.insert(place, vertex);
    return true;
  }

 private:
  std::vector<VertexId> seen_;
};

/// What may come to a link: no more than its flows' senders send and their receivers take.
struct Load {
  Distinct senders, receivers;
  double sent = 0, taken = 0;  ///< bit/s
  uint64_t flows = 0;
  bool drawn = false;  ///< some of the flows need not take the link

  void add(const Graph& graph, const NicPair& pair) {
    ++flows;
    if (senders.add(pair.from)) sent += nic_rate(graph, pair.from);
    if (receivers.add(pair.to)) taken += nic_rate(graph, pair.to);
  }
  bool several() const { return flows > 1; }
  bool exceeds(double rate) const { return several() && std::min(sent, taken) > rate * 1.0001; }
};

class Walk {
 public:
  Walk(const Topology& topology, bool change)
      : graph_(topology.graph),
        routes_(topology.routes(0)),
        loads_(graph_.links().size()),
        change_(change) {}

  /// Adds a flow to all links that it may take. True: it is known that paths matter.
  bool add(const NicPair& pair) {
    if (routes_.is_static(pair.from, pair.to)) return add_static(pair);
    // Shares of the flow's hashes that come to each vertex, nearest to the sender first: all
    // shortest paths to a vertex are equally long.
    std::map<VertexId, double> here{{pair.from, 1}};
    while (!here.empty()) {
      std::map<VertexId, double> next;
      for (const auto& [at, share] : here) {
        if (at == pair.to) continue;
        const std::span<const LinkId> hops = routes_.next_hops(at, pair.to);
        for (const LinkId link : hops) {
          if (!alike(link, hops.front())) return true;
          const double part = share / static_cast<double>(hops.size());
          Load& load = loads_[link];
          load.add(graph_, pair);
          load.drawn = load.drawn || part < 1 - 1e-9;
          if (load.drawn && (change_ || load.exceeds(rate_of(graph_, link)))) return true;
          next[graph_.link(link).to] += part;
        }
      }
      here = std::move(next);
    }
    return false;
  }

 private:
  /// All of its flows take the same way, but for parallel cables.
  bool add_static(const NicPair& pair) {
    for (const LinkId link : routes_.path(pair.from, pair.to, 0)) {
      Load& load = loads_[link];
      load.add(graph_, pair);
      if (load.drawn && load.exceeds(rate_of(graph_, link))) return true;
    }
    return false;
  }

  bool alike(LinkId a, LinkId b) const {
    const GraphLink &x = graph_.link(a), &y = graph_.link(b);
    return x.rate.bps() == y.rate.bps() && x.latency == y.latency && x.loss == y.loss &&
           x.down.empty() == y.down.empty();
  }

  const Graph& graph_;
  Routes routes_;
  std::vector<Load> loads_;
  const bool change_;
};

/// Calls `look` with pairs until it says that it has seen enough.
template <typename Look>
bool any_of_some(const std::vector<NicPair>& pairs, const Look& look) {
  const size_t step = pairs.size() / kMostPairs + 1;
  for (size_t i = 0; i < pairs.size(); i += step) {
    if (look(pairs[i])) return true;
  }
  return false;
}

}  // namespace

bool hash_chooses(const Topology& topology) {
  // A network without a circle, as one switch is, has one path for each pair.
  const Graph& graph = topology.graph;
  const bool circles = graph.links().size() / 2 >= graph.vertices().size();
  return topology.choice == RouteChoice::kEcmp && circles;
}

bool paths_matter(const Topology& topology, const std::vector<NicPair>& pairs, bool change) {
  if (!hash_chooses(topology)) return false;
  Walk walk(topology, change);
  return any_of_some(pairs, [&](const NicPair& pair) { return walk.add(pair); });
}

std::string shared_link(const Topology& topology, uint64_t seed,
                        const std::vector<NicPair>& pairs) {
  const Graph& graph = topology.graph;
  Routes routes = topology.routes(seed);
  std::vector<Load> loads(graph.links().size());
  LinkId found = kNoLink;
  any_of_some(pairs, [&](const NicPair& pair) {
    for (const LinkId link : routes.path(pair.from, pair.to, flow_hash(pair.from, pair.to, 0))) {
      if (graph.vertices()[graph.link(link).from].kind != VertexKind::kSwitch) continue;
      loads[link].add(graph, pair);
      if (loads[link].several() && loads[link].sent > rate_of(graph, link) * 1.0001) found = link;
    }
    return found != kNoLink;
  });
  return found == kNoLink ? "" : graph.link_name(found);
}

}  // namespace understudy
