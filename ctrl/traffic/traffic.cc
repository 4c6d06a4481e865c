#include "ctrl/traffic/traffic.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collective_model/nccl/double_tree.h"
#include "ctrl/traffic/poisson.h"

namespace understudy {
namespace {

/// splitmix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_;
};

/// Positions 0 .. n-1 in an order that leaves none at its place; every such order is as likely.
std::vector<uint32_t> derangement(size_t n, Random& random) {
  std::vector<uint32_t> order(n);
  for (bool deranged = false; !deranged;) {  // about e tries
    std::iota(order.begin(), order.end(), 0u);
    for (size_t i = n - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    deranged = true;
    for (size_t i = 0; i < n && deranged; ++i) deranged = order[i] != i;
  }
  return order;
}

class TrafficBuilder {
 public:
  TrafficBuilder(const Config& config, const Topology& topology)
      : config_(config), topology_(topology), graph_(topology.graph), nics_(topology.nics) {}

  tl::expected<Traffic, std::vector<ConfigError>> run() {
    for (const TrafficConfig& traffic : config_.traffic) {
      traffic_ = &traffic;
      out_.first.push_back(position());
      expand();
    }
    out_.first.push_back(position());
    if (!errors_.empty()) return tl::unexpected(std::move(errors_));
    return std::move(out_);
  }

 private:
  uint32_t position() const { return static_cast<uint32_t>(out_.flows.size()); }

  void expand() {
    switch (traffic_->pattern) {
      case TrafficPattern::kFlow:
      case TrafficPattern::kIncast:
        return add_pairs();
      case TrafficPattern::kPermutation:
        return add_permutation();
      case TrafficPattern::kAllToAll:
        return add_all_to_all();
      case TrafficPattern::kRing:
        return add_ring();
      case TrafficPattern::kTree:
        return add_trees();
      case TrafficPattern::kOnOff:
        return add_bursts();
      case TrafficPattern::kFile:
        return add_list();
      case TrafficPattern::kPoisson:
        return add_arrivals();
    }
  }

  FlowSpec& add(NodeId from, NodeId to, uint64_t bytes) {
    FlowSpec& flow = out_.flows.emplace_back();
    flow.name = traffic_->name + " " + std::to_string(position() - 1 - out_.first.back());
    flow.from = nics_[from][traffic_->nic];
    flow.to = nics_[to][traffic_->nic];
    flow.bytes = bytes;
    flow.priority = traffic_->priority;
    flow.control = traffic_->control;
    flow.group = static_cast<uint32_t>(traffic_ - config_.traffic.data());
    flow.held = traffic_->held;
    return flow;
  }

  /// When the number-th flow starts, of those that wait for no other.
  Duration start_of(size_t number) const {
    return traffic_->at + traffic_->stagger * static_cast<int64_t>(number);
  }

  NodeId receiver(size_t i) const { return traffic_->to[traffic_->to.size() == 1 ? 0 : i]; }

  /// The first round's flows from `first` on, once more for each further round.
  void add_rounds(uint32_t first) {
    const uint32_t count = position() - first;
    out_.flows.reserve(first + size_t{count} * traffic_->repeat);
    for (uint32_t i = first; i < first + count; ++i) {
      if (traffic_->repeat > 1) out_.flows[i].connection = connections_++;
    }
    for (uint32_t round = 1; round < traffic_->repeat; ++round) {
      for (uint32_t i = 0; i < count; ++i) {
        FlowSpec flow = out_.flows[first + i];
        flow.name = traffic_->name + " " + std::to_string(round * count + i);
        flow.start = traffic_->off;
        flow.after = {position() - count};
        out_.flows.push_back(std::move(flow));
      }
    }
  }

  void add_pairs() {
    const uint32_t first = position();
    for (size_t i = 0; i < traffic_->from.size(); ++i) {
      add(traffic_->from[i], receiver(i), traffic_->bytes).start = start_of(i);
    }
    add_rounds(first);
  }

  void add_permutation() {
    const uint32_t first = position();
    Random random(Random(config_.seed).next() + out_.first.size());
    const std::vector<uint32_t> order = derangement(traffic_->from.size(), random);
    for (size_t i = 0; i < order.size(); ++i) {
      add(traffic_->from[i], traffic_->from[order[i]], traffic_->bytes).start = start_of(i);
    }
    add_rounds(first);
  }

  void add_all_to_all() {
    const auto n = static_cast<uint32_t>(traffic_->from.size());
    const uint32_t others = n - 1;
    const uint32_t most = traffic_->concurrent == 0 ? others : traffic_->concurrent;
    const uint32_t first = position();
    out_.flows.reserve(first + size_t{n} * others * traffic_->repeat);
    for (uint32_t turn = 0; turn < others * traffic_->repeat; ++turn) {
      const uint32_t shift = 1 + turn % others;
      for (uint32_t i = 0; i < n; ++i) {
        const uint32_t own = position();
        FlowSpec& flow = add(traffic_->from[i], traffic_->from[(i + shift) % n], traffic_->bytes);
        if (traffic_->repeat > 1) flow.connection = connections_ + (shift - 1) * n + i;
        if (turn < most) {
          flow.start = start_of(own - first);
        } else {
          flow.after = {own - n * most};
          if (turn / others != (turn - most) / others) flow.start = traffic_->off;
        }
      }
    }
    if (traffic_->repeat > 1) connections_ += n * others;
  }

  void add_ring() {
    const auto n = static_cast<uint32_t>(traffic_->from.size());
    const uint32_t steps = traffic_->steps * traffic_->repeat;
    out_.flows.reserve(position() + size_t{n} * steps * traffic_->channels);
    for (uint32_t channel = 0; channel < traffic_->channels; ++channel) {
      for (uint32_t step = 0; step < steps; ++step) {
        for (uint32_t i = 0; i < n; ++i) {
          const uint32_t own = position();
          FlowSpec& flow = add(traffic_->from[i], traffic_->from[(i + 1) % n], traffic_->bytes);
          flow.connection = connections_ + i;
          if (step == 0) {
            flow.start = start_of(channel * n + i);
          } else {
            // What this rank passes on is what its predecessor has sent it the step before.
            flow.after = {own - i - n + (i + n - 1) % n};
            if (step % traffic_->steps == 0) flow.start = traffic_->off;
          }
        }
      }
      connections_ += n;
    }
  }

  /// An edge of a tree joins place p to its parent; each of its two ways is a connection. A chunk
  /// goes up once it has come from all children, and down once the sum has come.
  void add_trees() {
    const auto n = static_cast<uint32_t>(traffic_->from.size());
    const DoubleTree trees(n);
    const std::vector<std::vector<uint32_t>> children = trees.children();
    const uint32_t chunks = traffic_->chunks, edges = n - 1;
    enum Way : uint32_t { kUp, kDown, kWays };
    out_.flows.reserve(position() + size_t{DoubleTree::kTrees} * kWays * edges * chunks *
                                        traffic_->repeat * traffic_->channels);
    for (uint32_t channel = 0; channel < traffic_->channels; ++channel) {
      const uint32_t first = position();
      // Chunks are numbered on through the rounds.
      const auto flow_at = [&](uint32_t chunk, uint32_t tree, Way way, uint32_t place) {
        return first + ((chunk * DoubleTree::kTrees + tree) * kWays + way) * edges + place - 1;
      };
      /// The flows that bring the place its sum.
      const auto sum_at = [&](uint32_t chunk, uint32_t tree, uint32_t place) {
        if (place != 0) return flow_at(chunk, tree, kDown, place);
        return flow_at(chunk, tree, kUp, children[0].front());
      };
      const auto add_edge = [&](uint32_t chunk, uint32_t tree, Way way, uint32_t place) {
        const uint32_t parent = trees.parent(place);
        const uint32_t low = trees.rank(tree, place), high = trees.rank(tree, parent);
        const auto& nodes = traffic_->from;
        FlowSpec& flow = way == kUp ? add(nodes[low], nodes[high], traffic_->bytes)
                                    : add(nodes[high], nodes[low], traffic_->bytes);
        flow.connection = connections_ + (tree * kWays + way) * edges + place - 1;
        if (way == kDown) {
          flow.after = {sum_at(chunk, tree, parent)};
          return;
        }
        for (const uint32_t child : children[place]) {
          flow.after.push_back(flow_at(chunk, tree, kUp, child));
        }
        if (chunk < chunks) {
          if (flow.after.empty()) flow.start = start_of(channel * n + low);
          return;
        }
        // A rank begins a round once it has all of the one before.
        if (flow.after.empty()) flow.start = traffic_->off;
        const uint32_t last = chunk / chunks * chunks - 1;
        for (uint32_t t = 0; t < DoubleTree::kTrees; ++t) {
          flow.after.push_back(sum_at(last, t, trees.place(t, low)));
        }
      };
      for (uint32_t chunk = 0; chunk < chunks * traffic_->repeat; ++chunk) {
        for (uint32_t tree = 0; tree < DoubleTree::kTrees; ++tree) {
          for (const Way way : {kUp, kDown}) {
            for (uint32_t place = 1; place < n; ++place) add_edge(chunk, tree, way, place);
          }
        }
      }
      connections_ += DoubleTree::kTrees * kWays * edges;
    }
  }

  void add_bursts() {
    for (size_t i = 0; i < traffic_->from.size(); ++i) {
      const NodeId from = traffic_->from[i];
      const Bursts bursts = bursts_of(*traffic_, config_.nodes[from].nics[traffic_->nic].link_rate);
      for (uint64_t k = 0; k < bursts.count; ++k) {
        FlowSpec& flow = add(from, receiver(i), bursts.bytes);
        flow.start = start_of(i) + bursts.period * static_cast<int64_t>(k);
        flow.connection = connections_;
      }
      ++connections_;
    }
  }

  void add_arrivals() {
    for (const Arrival& arrival : poisson_arrivals(config_, *traffic_, out_.first.size())) {
      add(arrival.from, arrival.to, arrival.bytes).start = arrival.at;
    }
  }

  void add_list() {
    const uint32_t first = position();
    out_.flows.reserve(first + traffic_->flows.size());
    for (const ListedFlow& listed : traffic_->flows) {
      FlowSpec& flow = add(listed.from, listed.to, listed.bytes);
      flow.name = listed.id;
      flow.from = nics_[listed.from][listed.from_nic];
      flow.to = nics_[listed.to][listed.to_nic];
      flow.start = listed.start;
      if (listed.after.empty()) flow.start += traffic_->at;
      for (const uint32_t before : listed.after) flow.after.push_back(first + before);
      if (!listed.via.empty()) flow.path = path_of(listed, "via", listed.via, flow.from, flow.to);
      if (!listed.ack_via.empty()) {
        flow.back = path_of(listed, "ack_via", listed.ack_via, flow.to, flow.from);
      }
    }
  }

  std::vector<LinkId> path_of(const ListedFlow& listed, const char* column,
                              const std::vector<std::string>& via, VertexId from, VertexId to) {
    const auto wrong = [&](const std::string& found, std::string allowed) {
      errors_.push_back(
          {traffic_->file, listed.line, column, "\"" + found + "\"", std::move(allowed)});
      return std::vector<LinkId>{};
    };
    std::vector<LinkId> path;
    VertexId at = from;
    for (size_t hop = 0; hop <= via.size(); ++hop) {
      const bool last = hop == via.size();
      const std::string& name = last ? graph_.vertices()[to].name : via[hop];
      const auto found = topology_.by_name.find(name);
      if (found == topology_.by_name.end()) return wrong(name, "there is no switch of this name");
      const VertexId next = found->second;
      if (!last && graph_.vertices()[next].kind != VertexKind::kSwitch) {
        return wrong(name, "this is no switch: only switches forward");
      }
      // Parallel cables take turns with the flows.
      std::vector<LinkId> cables;
      for (const LinkId link : graph_.out(at)) {
        if (graph_.link(link).to == next) cables.push_back(link);
      }
      if (cables.empty()) {
        return wrong(name, "no cable leads here from " + graph_.vertices()[at].name);
      }
      path.push_back(cables[(position() - 1) % cables.size()]);
      at = next;
    }
    return path;
  }

  const Config& config_;
  const Topology& topology_;
  const Graph& graph_;
  const std::vector<std::vector<VertexId>>& nics_;
  const TrafficConfig* traffic_ = nullptr;
  Traffic out_;
  uint32_t connections_ = 0;
  std::vector<ConfigError> errors_;
};

}  // namespace

tl::expected<Traffic, std::vector<ConfigError>> build_traffic(const Config& config,
                                                              const Topology& topology) {
  return TrafficBuilder(config, topology).run();
}

uint32_t connection_count(const std::vector<FlowSpec>& flows) {
  uint32_t count = 0;
  for (const FlowSpec& flow : flows) {
    if (flow.connection != kNoConnection) count = std::max(count, flow.connection + 1);
  }
  return count;
}

uint64_t hash_number(const std::vector<FlowSpec>& flows, size_t i) {
  const uint32_t connection = flows[i].connection;
  return connection == kNoConnection ? i : hash_number(connection);
}

}  // namespace understudy
