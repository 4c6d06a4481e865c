#include "collective_model/traces/replay_check.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Kind = TraceNodeKind;

/// ASTRA-sim has no more tags than that for messages of a trace (Sys.hh).
constexpr uint32_t kTags = 500'000'000;

bool on_network(const TraceNode& node) {
  return node.kind == Kind::kSend || node.kind == Kind::kReceive || node.kind == Kind::kCollective;
}

/// Whether ring_times.h says what it takes.
bool by_ring(TraceCollective collective) {
  return collective == TraceCollective::kAllReduce || collective == TraceCollective::kAllGather ||
         collective == TraceCollective::kReduceScatter || collective == TraceCollective::kAllToAll;
}

class NodeCheck {
 public:
  NodeCheck(const TraceJob& job, const ReplaySettings& settings, TraceRings& rings)
      : job_(job), settings_(settings), rings_(rings) {}

  Result<void> run() {
    for (uint32_t rank = 0; rank < job_.ranks.size(); ++rank) {
      for (const TraceNode& node : job_.ranks[rank]->nodes()) {
        const auto fits = check(rank, node);
        if (!fits) return fail(place_text(job_, rank, node) + ": " + fits.error().text);
      }
    }
    TRY(pair_messages());
    return compare_groups();
  }

 private:
  struct End {
    TraceMessageKey key;
    bool receives;
    uint32_t rank;
    const TraceNode* node;
  };

  Result<void> check(uint32_t rank, const TraceNode& node) {
    if (static_cast<double>(node.duration_us) * 1000 > kLongestTraceNs) {
      return fail("it takes more than 46 days");
    }
    if (settings_.system.replay) return {};
    const bool first_rules = settings_.rules == TraceRules::kFeeder1;
    if (node.kind == Kind::kMetadata && !(first_rules && node.on_cpu)) {
      return fail(first_rules ? "metadata outside the CPU never ends by the first feeder's rules"
                              : "ASTRA-sim cannot carry out metadata by the third feeder's rules");
    }
    if (on_network(node) && node.on_cpu) {
      if (!first_rules)
        return fail("communication on the CPU is an error by the third feeder's rules");
      return check_roofline(node);  // it counts as a computation
    }
    switch (node.kind) {
      case Kind::kMemoryLoad:
      case Kind::kMemoryStore:
        return check_memory(rank, node);
      case Kind::kSend:
      case Kind::kReceive:
        return check_message(rank, node);
      case Kind::kCollective:
        return check_collective(rank, node);
      default:
        return check_roofline(node);
    }
  }

  Result<void> check_roofline(const TraceNode& node) const {
    if (!settings_.system.roofline) return {};
    if (settings_.rules == TraceRules::kFeeder1 && node.duration_us == 0 && node.operations == 0) {
      return {};
    }
    if (settings_.rules == TraceRules::kFeeder3 && (node.on_cpu || node.tensor_bytes == 0))
      return {};
    if (node.operations == 0) return fail("num_ops is 0: the roofline has no time for it");
    return {};
  }

  Result<void> check_memory(uint32_t rank, const TraceNode& node) const {
    const TraceMemory& memory = settings_.memory;
    if (memory.kind == TraceMemory::Kind::kNone) {
      return fail("there is no memory beyond the devices (memory-type NO_MEMORY_EXPANSION)");
    }
    if (memory.kind == TraceMemory::Kind::kPerNode &&
        rank / memory.ranks_per_node >= memory.nodes) {
      return fail("num-nodes and num-npus-per-node have no place for this rank");
    }
    const double time = static_cast<double>(memory.latency_ns) +
                        static_cast<double>(node.tensor_bytes) / memory.bytes_per_ns;
    if (!(time < kLongestTraceNs)) return fail("it takes more than 46 days");
    return {};
  }

  Result<void> check_message(uint32_t rank, const TraceNode& node) {
    const bool sends = node.kind == Kind::kSend;
    const auto& peer = sends ? node.destination : node.source;
    const auto& own = sends ? node.source : node.destination;
    if (!peer) return fail(sends ? "comm_dst is missing" : "comm_src is missing");
    if (!node.bytes) return fail("comm_size is missing");
    if (*node.bytes == 0) return fail("a message of no bytes");
    if (*peer == rank) return fail("a message of a rank to itself");
    if (*peer >= job_.ranks.size()) {
      return fail("there is no rank " + std::to_string(*peer) + " for its message");
    }
    if (settings_.rules == TraceRules::kFeeder3 && own && *own != rank) {
      return fail(sends ? "comm_src of a send is another rank"
                        : "comm_dst of a receive is another rank");
    }
    if (sends) {
      const uint32_t hops =
          settings_.network.congestion_aware() ? settings_.network.hops(rank, *peer) : 1;
      if (settings_.network.message_time(*node.bytes, rank, *peer) * hops > kLongestTraceNs) {
        return fail("it takes more than 46 days");
      }
    }
    ends_.push_back({message_key(rank, node), !sends, rank, &node});
    return {};
  }

  Result<void> check_collective(uint32_t rank, const TraceNode& node) {
    if (!node.collective) return fail("comm_type is missing");
    if (*node.collective == TraceCollective::kBroadcast) return {};
    if (!by_ring(*node.collective)) {
      return fail(std::string("the collective ") + name_of(*node.collective) + " is not covered");
    }
    if (!node.bytes) return fail("comm_size is missing");
    const uint32_t number = TRY(rings_.ring_of(rank, node));
    TRY(rings_.cost(node, rings_.ring(number)));
    if (collectives_.size() <= number) collectives_.resize(number + 1);
    collectives_[number][rank].push_back(&node);
    return {};
  }

  Result<void> pair_messages() {
    std::sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) {
      return std::tuple(a.key, a.receives) < std::tuple(b.key, b.receives);
    });
    for (auto first = ends_.begin(); first != ends_.end();) {
      const auto last =
          std::find_if(first, ends_.end(), [&](const End& end) { return end.key != first->key; });
      const auto receives = std::find_if(first, last, [](const End& end) { return end.receives; });
      const auto sent = receives - first, received = last - receives;
      if (sent != received) {
        // Which of several is left over is not known: the last.
        const End& left = sent > received ? *(receives - 1) : *(last - 1);
        return fail(place_text(job_, left.rank, *left.node) + ": " +
                    (left.receives ? "no rank sends" : "no rank receives") + " this message (" +
                    std::to_string(sent) + " sent, " + std::to_string(received) +
                    " received from rank " + std::to_string(left.key.from) + " to rank " +
                    std::to_string(left.key.to) + " with tag " + std::to_string(left.key.tag) +
                    " and " + std::to_string(left.key.bytes) + " bytes)");
      }
      first = last;
    }
    return {};
  }

  Result<void> compare_groups() {
    using Content = std::pair<TraceCollective, uint64_t>;
    const auto content = [](const std::vector<const TraceNode*>& nodes) {
      std::vector<Content> all;
      all.reserve(nodes.size());
      for (const TraceNode* node : nodes) all.emplace_back(*node->collective, *node->bytes);
      std::sort(all.begin(), all.end());
      return all;
    };
    for (uint32_t number = 0; number < collectives_.size(); ++number) {
      const TraceRing& ring = rings_.ring(number);
      auto& by_rank = collectives_[number];
      const uint32_t first = ring.ranks.front();
      const std::vector<Content> expected = content(by_rank[first]);
      for (const uint32_t rank : ring.ranks) {
        const std::vector<Content> has = content(by_rank[rank]);
        if (has == expected) continue;
        if (has.size() != expected.size()) {
          return fail(ring.name + ": rank " + std::to_string(first) + " has " +
                      std::to_string(expected.size()) + " collectives, rank " +
                      std::to_string(rank) + " " + std::to_string(has.size()));
        }
        const auto differs = std::mismatch(has.begin(), has.end(), expected.begin());
        return fail(ring.name + ": rank " + std::to_string(rank) + " has a collective (" +
                    name_of(differs.first->first) + " of " + std::to_string(differs.first->second) +
                    " bytes) that rank " + std::to_string(first) + " has not");
      }
    }
    return {};
  }

  const TraceJob& job_;
  const ReplaySettings& settings_;
  TraceRings& rings_;
  std::vector<End> ends_;
  std::vector<std::map<uint32_t, std::vector<const TraceNode*>>> collectives_;  ///< by ring, rank
};

}  // namespace

std::string place_text(const TraceJob& job, uint32_t rank, const TraceNode& node) {
  TraceNode there;
  there.id = node.id + rank * job.id_step;
  there.name = node.name;
  return "rank " + std::to_string(rank) + ", " + title_of(there);
}

TraceMessageKey message_key(uint32_t rank, const TraceNode& node) {
  const bool sends = node.kind == Kind::kSend;
  return {node.tag % kTags, sends ? rank : *node.source, sends ? *node.destination : rank,
          *node.bytes};
}

Result<std::map<const TraceGraph*, TraceOrder>> order_job(const TraceJob& job, TraceRules rules) {
  std::map<const TraceGraph*, TraceOrder> orders;
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const TraceGraph* graph = job.ranks[rank].get();
    if (orders.contains(graph)) continue;
    if (graph->nodes().empty()) return fail("rank " + std::to_string(rank) + " has no nodes");
    auto order = order_trace(*graph, rules);
    if (!order) return fail("rank " + std::to_string(rank) + ": " + order.error().text);
    orders.emplace(graph, *std::move(order));
  }
  return orders;
}

Result<void> check_replay(const TraceJob& job, const ReplaySettings& settings, TraceRings& rings) {
  return NodeCheck(job, settings, rings).run();
}

bool links_of_one_rank(const TraceJob& job, const ReplaySettings& settings, TraceRings& rings) {
  const TraceNetwork& network = settings.network;
  if (network.dimensions().front().kind == TraceDimension::Kind::kFullyConnected) return true;
  for (uint32_t number = 0; number < rings.size(); ++number) {
    const std::vector<uint32_t>& ranks = rings.ring(number).ranks;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (network.hops(ranks[i], ranks[(i + 1) % ranks.size()]) > 1) return false;
    }
  }
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    for (const TraceNode& node : job.ranks[rank]->nodes()) {
      if (node.kind != Kind::kSend || node.on_cpu) continue;
      if (network.hops(rank, *node.destination) > 1) return false;
    }
  }
  return true;
}

}  // namespace understudy
