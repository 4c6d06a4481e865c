#include "collective_model/traces/trace_rings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Of a group's ring, whatever the system file says (MemBus.cc: rings of groups are "local").
constexpr int64_t kGroupEndpointNs = 10;

using Key = std::pair<uint64_t, uint64_t>;
Key group_key(uint32_t group) { return {0, group}; }
Key dimension_key(size_t dimension, uint32_t first) { return {1 + dimension, first}; }

}  // namespace

Result<std::optional<uint32_t>> TraceRings::group_of(uint32_t rank, const TraceNode& node) const {
  if (rules_ == TraceRules::kFeeder1) {
    // The last group that has the rank, in the order of its file's parser: by the numbers' digits.
    std::optional<uint32_t> last;
    for (const auto& [number, ranks] : job_.groups) {
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
      if (!last || std::to_string(*last) < std::to_string(number)) last = number;
    }
    return last;
  }
  if (node.group.empty() || node.group == "0") return std::optional<uint32_t>();
  uint32_t number = 0;
  const char* end = node.group.data() + node.group.size();
  const auto [at, error] = std::from_chars(node.group.data(), end, number);
  if (error != std::errc() || at != end) {
    return fail("its group '" + node.group + "' is not a number");
  }
  if (!job_.groups.contains(number)) {
    return fail("its group " + node.group + " is in no file of groups");
  }
  return std::optional<uint32_t>(number);
}

Result<uint32_t> TraceRings::ring_of(uint32_t rank, const TraceNode& node) {
  const std::optional<uint32_t> group = TRY(group_of(rank, node));
  if (group) return group_ring(rank, *group, node);
  const auto& dimensions = network_.dimensions();
  if (node.dimensions.empty() && dimensions.size() == 1) return dimension_ring(rank, 0, node);
  if (!node.dimensions.empty() && node.dimensions.size() < dimensions.size()) {
    return fail("involved_dim has " + std::to_string(node.dimensions.size()) +
                " values, the network " + std::to_string(dimensions.size()) + " dimensions");
  }
  std::optional<size_t> involved;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    if (!node.dimensions.empty() && !node.dimensions[d]) continue;
    if (involved) return fail("a collective over several dimensions at once is not covered");
    involved = d;
  }
  if (!involved) return fail("no dimension of the network takes part: it would never end");
  return dimension_ring(rank, *involved, node);
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
  if (whole && network_.dimensions().size() > 1) {
    return fail(name +
                " has all ranks: a collective over several dimensions at once is not covered");
  }
  // Where there are several dimensions, groups of some ranks use rings whatever the file says.
  if (network_.dimensions().size() == 1) TRY(check_algorithm(node, 0));
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
  // With all ranks ASTRA-sim takes the network's own ring (CommunicatorGroup.cc).
  if (whole) std::sort(ring.ranks.begin(), ring.ranks.end());
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

Result<uint32_t> TraceRings::dimension_ring(uint32_t rank, size_t dimension,
                                            const TraceNode& node) {
  TRY(check_algorithm(node, dimension));
  const uint32_t stride = network_.stride(dimension);
  const uint32_t first = rank - network_.place(rank, dimension) * stride;
  const auto found = numbers_.find(dimension_key(dimension, first));
  if (found != numbers_.end()) return found->second;
  TraceRing ring;
  const uint32_t count = network_.dimensions()[dimension].ranks;
  ring.whole = network_.dimensions().size() == 1;
  ring.name = ring.whole
                  ? "all ranks"
                  : "dimension " + std::to_string(dimension) + " of rank " + std::to_string(first);
  ring.endpoint_ns = system_.endpoint_ns;
  for (uint32_t i = 0; i < count; ++i) {
    ring.ranks.push_back(first + i * stride);
    ring.places.emplace(ring.ranks.back(), i);
  }
  return add(dimension_key(dimension, first), std::move(ring));
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

Result<RingSteps> TraceRings::steps(const TraceNode& node, const TraceRing& ring) const {
  if (system_.splits == 0) return fail("the system file has no preferred-dataset-splits");
  if (!(system_.memory_gb_s > 0)) return fail("the system file has no local-mem-bw");
  const TraceCollective collective = *node.collective;
  const bool gathers = collective == TraceCollective::kAllGather;
  const uint64_t ranks = ring.ranks.size();
  uint64_t size = *node.bytes;
  uint64_t chunk = size / system_.splits;
  // Sys::determine_chunk_size: the ranks are those of the whole network.
  if (!gathers && chunk < network_.ranks()) {
    chunk = network_.ranks();
    size = chunk * system_.splits;
  }
  if (chunk == 0) {
    return fail("an all-gather of " + std::to_string(size) + " bytes in " +
                std::to_string(system_.splits) + " parts: ASTRA-sim has no time for empty parts");
  }
  RingSteps steps;
  steps.chunks = size / chunk + (size % chunk != 0);
  steps.message_bytes = gathers ? chunk : chunk / ranks;
  steps.endpoint = ring.endpoint_ns;
  switch (collective) {
    case TraceCollective::kAllReduce:
      steps.steps = 2 * (ranks - 1);
      steps.reducing = ranks - 1;
      break;
    case TraceCollective::kReduceScatter:
      steps.steps = steps.reducing = ranks - 1;
      break;
    case TraceCollective::kAllGather:
      steps.steps = ranks - 1;
      break;
    case TraceCollective::kAllToAll:
      steps.steps = ranks * (ranks - 1) / 2;
      break;
    default:
      return fail(std::string(name_of(collective)) + " is not covered");
  }
  const double bytes = static_cast<double>(steps.message_bytes);
  const double reduce = 3 * std::floor(bytes / (system_.memory_gb_s * 1e9) * 1e9);
  const double serialized =
      network_.congestion_aware() ? network_.serialized(steps.message_bytes) : 0;
  double longest = 0;
  for (size_t i = 0; i < ranks; ++i) {
    const uint32_t from = ring.ranks[i], to = ring.ranks[(i + 1) % ranks];
    longest = std::max(longest, network_.message_time(steps.message_bytes, from, to) *
                                    (network_.congestion_aware() ? network_.hops(from, to) : 1));
    if (ring.in_step) break;
  }
  const double all = static_cast<double>(steps.chunks) * static_cast<double>(steps.steps + 1) *
                     (longest + reduce + static_cast<double>(steps.endpoint));
  if (!(all < kLongestTraceNs)) return fail("it takes more than 46 days");
  steps.reduce = static_cast<int64_t>(reduce);
  steps.serialized = static_cast<int64_t>(serialized);
  return steps;
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
