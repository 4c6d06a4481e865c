#include "collective_model/traces/trace_rings.h"

#include <algorithm>
#include <cmath>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Of a group's ring, whatever the system file says (MemBus.cc: rings of groups are "local").
constexpr int64_t kGroupEndpointNs = 10;

using Key = std::pair<uint64_t, uint64_t>;
Key group_key(uint32_t group) { return {0, group}; }
Key dimension_key(const std::vector<size_t>& dimensions, uint32_t first) {
  uint64_t set = 0;
  for (const size_t dimension : dimensions) set |= uint64_t{1} << dimension;
  return {set, first};
}

}  // namespace

Result<uint32_t> TraceRings::ring_of(uint32_t rank, const TraceNode& node) {
  const std::optional<uint32_t> group = TRY(groups_.of(rank, node));
  if (group) return group_ring(rank, *group, node);
  const size_t count = network_.dimensions().size();
  if (!node.dimensions.empty() && node.dimensions.size() < count) {
    return fail("involved_dim has " + std::to_string(node.dimensions.size()) +
                " values, the network " + std::to_string(count) + " dimensions");
  }
  std::vector<size_t> involved;
  for (size_t d = 0; d < count; ++d) {
    if (node.dimensions.empty() || node.dimensions[d]) involved.push_back(d);
  }
  if (involved.empty()) return fail("no dimension of the network takes part: it would never end");
  return dimension_ring(rank, involved, node);
}

Result<void> TraceRings::check_algorithm(const TraceNode& node, size_t dimension) const {
  const char* name = name_of(*node.collective);
  const auto found = system_.algorithms.find(*node.collective);
  if (found == system_.algorithms.end()) {
    return fail(std::string("the system file has no ") + name + "-implementation");
  }
  const std::vector<std::string>& algorithms = found->second;
  if (algorithms.size() != network_.dimensions().size()) {
    return fail(std::string(name) + "-implementation of the system file has " +
                std::to_string(algorithms.size()) + " values, the network " +
                std::to_string(network_.dimensions().size()) + " dimensions");
  }
  if (algorithms[dimension] != "ring") {
    return fail(std::string(name) + " by '" + algorithms[dimension] +
                "' is not covered, only by 'ring'");
  }
  return {};
}

Result<uint32_t> TraceRings::group_ring(uint32_t rank, uint32_t group, const TraceNode& node) {
  const std::vector<uint32_t>& ranks = job_.groups.at(group);
  const std::string name = "group " + std::to_string(group);
  const auto found = numbers_.find(group_key(group));
  const bool whole = ranks.size() == network_.ranks();
  // Where there are several dimensions, groups of some ranks use rings whatever the file says.
  if (whole || network_.dimensions().size() == 1) {
    for (size_t d = 0; d < network_.dimensions().size(); ++d) TRY(check_algorithm(node, d));
  }
  const auto member_check = [&](const TraceRing& ring) -> Result<void> {
    if (!ring.places.contains(rank)) return fail(name + " has not rank " + std::to_string(rank));
    return {};
  };
  if (found != numbers_.end()) {
    TRY(member_check(rings_[found->second]));
    return found->second;
  }
  TraceRing ring;
  ring.name = name;
  ring.ranks = ranks;
  ring.whole = whole;
  if (whole) {
    // With all ranks ASTRA-sim takes the network's own order (CommunicatorGroup.cc).
    std::sort(ring.ranks.begin(), ring.ranks.end());
    for (size_t d = 0; d < network_.dimensions().size(); ++d) ring.stack.push_back(d);
    if (ring.stack.size() == 1) ring.stack.clear();
  }
  ring.endpoint_ns = whole ? system_.endpoint_ns : kGroupEndpointNs;
  ring.counter = 1 + group;
  for (uint32_t i = 0; i < ring.ranks.size(); ++i) {
    if (ring.ranks[i] >= network_.ranks()) {
      return fail(name + " has rank " + std::to_string(ring.ranks[i]) + ", the network has " +
                  std::to_string(network_.ranks()) + " ranks");
    }
    if (!ring.places.emplace(ring.ranks[i], i).second) {
      return fail(name + " has rank " + std::to_string(ring.ranks[i]) + " twice");
    }
  }
  if (ring.ranks.size() < 2) return fail(name + " has one rank: its collective would never end");
  TRY(member_check(ring));
  return add(group_key(group), std::move(ring));
}

Result<uint32_t> TraceRings::dimension_ring(uint32_t rank, const std::vector<size_t>& dimensions,
                                            const TraceNode& node) {
  uint32_t first = rank;
  for (const size_t d : dimensions) {
    TRY(check_algorithm(node, d));
    first -= network_.place(rank, d) * network_.stride(d);
  }
  const auto found = numbers_.find(dimension_key(dimensions, first));
  if (found != numbers_.end()) return found->second;
  return add(dimension_key(dimensions, first), ring_along(first, dimensions));
}

/// `first`: the smallest of its ranks.
TraceRing TraceRings::ring_along(uint32_t first, const std::vector<size_t>& dimensions) const {
  TraceRing ring;
  const size_t all = network_.dimensions().size();
  ring.whole = all == 1;
  ring.endpoint_ns = system_.endpoint_ns;
  ring.ranks = {first};
  for (const size_t d : dimensions) {
    const size_t before = ring.ranks.size();
    for (uint32_t place = 1; place < network_.dimensions()[d].ranks; ++place) {
      for (size_t i = 0; i < before; ++i) {
        ring.ranks.push_back(ring.ranks[i] + place * network_.stride(d));
      }
    }
  }
  for (uint32_t i = 0; i < ring.ranks.size(); ++i) ring.places.emplace(ring.ranks[i], i);
  if (dimensions.size() > 1) ring.stack = dimensions;
  if (dimensions.size() == all) {
    ring.name = "all ranks";
    return ring;
  }
  ring.name = "dimension";
  for (const size_t d : dimensions) ring.name += " " + std::to_string(d);
  ring.name += " of rank " + std::to_string(first);
  return ring;
}

uint32_t TraceRings::add(Key key, TraceRing ring) {
  ring.in_step = true;
  const auto way = [&](size_t i) {
    const uint32_t from = ring.ranks[i], to = ring.ranks[(i + 1) % ring.ranks.size()];
    return std::pair(network_.crossed(from, to), network_.hops(from, to));
  };
  for (size_t i = 1; i < ring.ranks.size(); ++i) ring.in_step &= way(i) == way(0);
  const auto number = static_cast<uint32_t>(rings_.size());
  rings_.push_back(std::move(ring));
  numbers_.emplace(key, number);
  return number;
}

/// How many chunks, and in message_bytes the bytes of one.
Result<RingSteps> TraceRings::chunks_of(const TraceNode& node) const {
  if (system_.splits == 0) return fail("the system file has no preferred-dataset-splits");
  if (!(system_.memory_gb_s > 0)) return fail("the system file has no local-mem-bw");
  uint64_t size = *node.bytes;
  uint64_t chunk = size / system_.splits;
  // Sys::determine_chunk_size: the ranks are those of the whole network.
  if (*node.collective != TraceCollective::kAllGather && chunk < network_.ranks()) {
    chunk = network_.ranks();
    size = chunk * system_.splits;
  }
  if (chunk == 0) {
    return fail("an all-gather of " + std::to_string(size) + " bytes in " +
                std::to_string(system_.splits) + " parts: ASTRA-sim has no time for empty parts");
  }
  RingSteps steps;
  steps.chunks = size / chunk + (size % chunk != 0);
  steps.message_bytes = chunk;
  return steps;
}

void TraceRings::add_steps(TraceCollective collective, uint64_t bytes, uint64_t ranks,
                           RingSteps& steps) const {
  steps.message_bytes = collective == TraceCollective::kAllGather ? bytes : bytes / ranks;
  switch (collective) {
    case TraceCollective::kAllReduce:
      steps.steps = 2 * (ranks - 1);
      steps.reducing = ranks - 1;
      break;
    case TraceCollective::kReduceScatter:
      steps.steps = steps.reducing = ranks - 1;
      break;
    case TraceCollective::kAllToAll:
      steps.steps = ranks * (ranks - 1) / 2;
      break;
    default:
      steps.steps = ranks - 1;
      break;
  }
  const double reduced = static_cast<double>(steps.message_bytes) / (system_.memory_gb_s * 1e9);
  steps.reduce = static_cast<int64_t>(std::min(3 * std::floor(reduced * 1e9), kLongestTraceNs));
}

Result<RingCost> TraceRings::cost(const TraceNode& node, const TraceRing& ring) const {
  RingCost cost;
  RingSteps& steps = cost.steps;
  steps = TRY(chunks_of(node));
  if (!ring.stack.empty()) {
    cost.phases = TRY(phases(node, ring, steps.message_bytes));
    return cost;
  }
  const uint64_t ranks = ring.ranks.size();
  steps.endpoint = ring.endpoint_ns;
  add_steps(*node.collective, steps.message_bytes, ranks, steps);
  const bool aware = network_.congestion_aware();
  double longest = 0;
  for (size_t i = 0; i < ranks; ++i) {
    const uint32_t from = ring.ranks[i], to = ring.ranks[(i + 1) % ranks];
    longest = std::max(longest, network_.message_time(steps.message_bytes, from, to) *
                                    (aware ? network_.hops(from, to) : 1));
    if (ring.in_step) break;
  }
  const double all = static_cast<double>(steps.chunks) * static_cast<double>(steps.steps + 1) *
                     (longest + static_cast<double>(steps.reduce + steps.endpoint));
  if (!(all < kLongestTraceNs)) return fail("it takes more than 46 days");
  if (aware) steps.serialized = static_cast<int64_t>(network_.serialized(steps.message_bytes));
  return cost;
}

/// In the order of Sys::generate_collective(): inwards out, and of all-gathers outwards in.
Result<std::vector<StackPhase>> TraceRings::phases(const TraceNode& node, const TraceRing& ring,
                                                   uint64_t chunk) const {
  using enum TraceCollective;
  std::vector<std::pair<TraceCollective, size_t>> order;
  const std::vector<size_t>& stack = ring.stack;
  switch (*node.collective) {
    case kAllReduce:
      if (!system_.reduces_by_parts) {
        return fail(
            "an all-reduce over several dimensions is covered with collective-optimization "
            "'localBWAware' only");
      }
      for (size_t i = 0; i + 1 < stack.size(); ++i) order.emplace_back(kReduceScatter, stack[i]);
      order.emplace_back(kAllReduce, stack.back());
      for (size_t i = stack.size() - 1; i-- > 0;) order.emplace_back(kAllGather, stack[i]);
      break;
    case kAllGather:
      for (size_t i = stack.size(); i-- > 0;) order.emplace_back(kAllGather, stack[i]);
      break;
    default:
      for (const size_t d : stack) order.emplace_back(*node.collective, d);
      break;
  }
  const uint64_t chunks = TRY(chunks_of(node)).chunks;
  std::vector<StackPhase> phases;
  double all = 0;
  for (const auto& [collective, d] : order) {
    const uint64_t ranks = network_.dimensions()[d].ranks;
    RingSteps steps;
    add_steps(collective, chunk, ranks, steps);
    if (steps.message_bytes == 0) return fail("its parts are less than a byte for each rank");
    if (collective == kReduceScatter) chunk /= ranks;
    if (collective == kAllGather) chunk *= ranks;
    const uint32_t first = ring.ranks.front();
    const double way =
        network_.message_time(steps.message_bytes, first, first + network_.stride(d));
    const auto count = static_cast<double>(steps.steps),
               reducing = static_cast<double>(steps.reducing);
    const auto endpoint = static_cast<double>(ring.endpoint_ns);
    const double takes =
        count * (way + endpoint) + reducing * static_cast<double>(steps.reduce) + endpoint;
    all += takes * static_cast<double>(chunks);
    if (!(all < kLongestTraceNs)) return fail("it takes more than 46 days");
    phases.push_back({static_cast<uint32_t>(d), static_cast<int64_t>(takes)});
  }
  return phases;
}

std::vector<int64_t> TraceRings::ways(uint64_t message_bytes, const TraceRing& ring) const {
  std::vector<int64_t> ways;
  for (size_t i = 0; i < (ring.in_step ? 1 : ring.ranks.size()); ++i) {
    const uint32_t from = ring.ranks[i], to = ring.ranks[(i + 1) % ring.ranks.size()];
    ways.push_back(static_cast<int64_t>(network_.message_time(message_bytes, from, to)));
  }
  return ways;
}

}  // namespace understudy
