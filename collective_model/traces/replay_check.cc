#include "collective_model/traces/replay_check.h"

#include <cmath>
#include <vector>

#include "collective_model/traces/trace_matching.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Kind = TraceNodeKind;

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
      : job_(job), settings_(settings), rings_(rings), ends_(job) {}

  Result<void> run() {
    for (uint32_t rank = 0; rank < job_.ranks.size(); ++rank) {
      for (const TraceNode& node : job_.ranks[rank]->nodes()) {
        const auto fits = check(rank, node);
        if (!fits) return fail(place_text(job_, rank, node) + ": " + fits.error().text);
      }
    }
    TRY(ends_.check());
    for (uint32_t number = 0; number < collectives_.size(); ++number) {
      const TraceRing& ring = rings_.ring(number);
      TRY(compare_ranks(ring.name, ring.ranks, collectives_[number]));
    }
    return {};
  }

 private:
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
    if (settings_.rules == TraceRules::kFeeder1 && node.duration_ns() == 0 &&
        node.operations == 0) {
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
    TRY(ends_.add(rank, node, settings_.rules));
    if (node.kind != Kind::kSend) return {};
    const uint32_t to = *node.destination;
    const TraceNetwork& network = settings_.network;
    const uint32_t hops = network.congestion_aware() ? network.hops(rank, to) : 1;
    if (network.message_time(*node.bytes, rank, to) * hops > kLongestTraceNs) {
      return fail("it takes more than 46 days");
    }
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

  const TraceJob& job_;
  const ReplaySettings& settings_;
  TraceRings& rings_;
  MessageEnds ends_;
  std::vector<CollectivesOfRanks> collectives_;  ///< by ring
};

}  // namespace

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
