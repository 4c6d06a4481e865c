// Which ranks carry out a collective of a trace together, and what it takes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collective_model/traces/ring_times.h"
#include "collective_model/traces/stack_time.h"
#include "collective_model/traces/trace_matching.h"
#include "collective_model/traces/trace_network.h"
#include "collective_model/traces/trace_system.h"

namespace understudy {

/// The ring of a collective.
struct TraceRing {
  std::string name;             ///< "all ranks", "group 3", "dimension 1 of rank 5"
  std::vector<uint32_t> ranks;  ///< each sends to the next one
  std::map<uint32_t, uint32_t> places;
  bool whole = false;    ///< all ranks, in the network's order
  bool in_step = false;  ///< all ways to the next rank take the same time
  /// Several: the ranks are those that differ in these dimensions, and no ring.
  std::vector<size_t> stack = {};
  /// Collectives of one rank that have the same counter are numbered together.
  uint32_t counter = 0;
  int64_t endpoint_ns = 0;
};

/// What a collective takes.
struct RingCost {
  RingSteps steps;
  std::vector<StackPhase> phases;  ///< of a ring's `stack`; of `steps` only the chunks count then
};

/// Rings of a job, made when they are first asked for.
class TraceRings {
 public:
  /// All three outlive this.
  TraceRings(const TraceJob& job, const TraceNetwork& network, const TraceSystem& system,
             TraceRules rules)
      : job_(job), network_(network), system_(system), groups_(job, rules) {}

  /// Number of the ring of a collective of `rank`. Errors name what is wrong, or what is not covered:
  /// several dimensions at once, other algorithms than the ring.
  Result<uint32_t> ring_of(uint32_t rank, const TraceNode& node);
  const TraceRing& ring(uint32_t number) const { return rings_[number]; }
  size_t size() const { return rings_.size(); }

  /// Of a collective whose bytes and ring are given; an error where ASTRA-sim has no time for it.
  Result<RingCost> cost(const TraceNode& node, const TraceRing& ring) const;
  /// How long its messages take to the next rank, in ns, by rank or one for all.
  std::vector<int64_t> ways(uint64_t message_bytes, const TraceRing& ring) const;

 private:
  Result<uint32_t> group_ring(uint32_t rank, uint32_t group, const TraceNode& node);
  Result<uint32_t> dimension_ring(uint32_t rank, const std::vector<size_t>& dimensions,
                                  const TraceNode& node);
  TraceRing ring_along(uint32_t rank, const std::vector<size_t>& dimensions) const;
  Result<RingSteps> chunks_of(const TraceNode& node) const;
  /// Adds to `steps` what one chunk of so many bytes does with `ranks` others in a ring.
  void add_steps(TraceCollective collective, uint64_t bytes, uint64_t ranks,
                 RingSteps& steps) const;
  Result<std::vector<StackPhase>> phases(const TraceNode& node, const TraceRing& ring,
                                         uint64_t chunk) const;
  Result<void> check_algorithm(const TraceNode& node, size_t dimension) const;
  uint32_t add(std::pair<uint64_t, uint64_t> key, TraceRing ring);

  const TraceJob& job_;
  const TraceNetwork& network_;
  const TraceSystem& system_;
  TraceGroups groups_;
  std::vector<TraceRing> rings_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> numbers_;
};

/// The longest time that a node or a run may take: what is added to it stays within 64 bits of
/// picoseconds.
inline constexpr double kLongestTraceNs = 4e15;

}  // namespace understudy
