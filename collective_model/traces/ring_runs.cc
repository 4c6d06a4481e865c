#include "collective_model/traces/ring_runs.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {

Result<void> RingRuns::enter(int64_t now, uint32_t rank, uint32_t index, const TraceNode& node) {
  const uint32_t ring_number = TRY(rings_.ring_of(rank, node));
  const TraceRing& ring = rings_.ring(ring_number);
  RingCost cost = TRY(rings_.cost(node, ring));
  // Ranks find one another by how many chunks they have begun before.
  uint64_t& counter = counters_[rank][ring.counter];
  const uint64_t count = counter;
  counter += cost.steps.chunks;
  if (numbers_.size() <= ring_number) numbers_.resize(ring_number + 1);
  const auto [found, added] =
      numbers_[ring_number].emplace(count, static_cast<uint32_t>(runs_.size()));
  const uint32_t number = found->second;
  if (added) {
    runs_.push_back({ring_number,
                     *node.collective,
                     *node.bytes,
                     cost.steps,
                     std::move(cost.phases),
                     {},
                     0,
                     0,
                     false});
    runs_.back().members.resize(ring.ranks.size());
  }
  Run& run = runs_[number];
  if (run.collective != *node.collective || run.bytes != *node.bytes) {
    return fail(ring.name + " begins " + name_of(*node.collective) + " of " +
                std::to_string(*node.bytes) + " bytes here, and another rank " +
                name_of(run.collective) + " of " + std::to_string(run.bytes) + " bytes");
  }
  const uint32_t place = ring.places.at(rank);
  run.members[place].entered = now;
  run.members[place].index = index;
  ++run.entered;
  const bool all = run.entered == run.members.size();
  if (all) numbers_[ring_number].erase(found);
  if (all && !run.phases.empty()) return end_stack(now, run);
  if (apart_) {
    if (all) end_all(run);
    return {};
  }
  if (all && can_end_all(now, run)) {
    end_all(run);
    return {};
  }
  const int64_t first = now + run.steps.endpoint;
  events_.add(first, now, TraceEvent::Kind::kRingRankReady, number, place);
  return {};
}

/// Chunks of ranks that are not in step would overtake one another differently on each rank.
Result<void> RingRuns::end_stack(int64_t now, Run& run) {
  const TraceRing& ring = rings_.ring(run.ring);
  const int64_t ends = now + stack_time(run.phases, run.steps.chunks);
  for (size_t place = 0; place < run.members.size(); ++place) {
    if (run.members[place].entered != now) {
      return fail(
          "a collective over several dimensions at once whose ranks begin it at different "
          "times is not covered (rank " +
          std::to_string(ring.ranks[place]) + " began at " +
          std::to_string(*run.members[place].entered) + " ns, the last one at " +
          std::to_string(now) + " ns)");
    }
    events_.add(ends, ends - ring.endpoint_ns, TraceEvent::Kind::kNodeEnds, ring.ranks[place],
                run.members[place].index);
  }
  run.closed = true;
  run.members = {};
  return {};
}

/// Whether nothing else can be on the links until all end, which is at the same time.
bool RingRuns::can_end_all(int64_t now, const Run& run) const {
  const TraceRing& ring = rings_.ring(run.ring);
  if (!ring.whole || messages_.under_way() > 0) return false;
  for (uint32_t place = 0; place < run.members.size(); ++place) {
    if (run.members[place].entered != now) return false;
    const uint32_t next = ring.ranks[(place + 1) % ring.ranks.size()];
    if (messages_.free(ring.ranks[place], next) > now + run.steps.endpoint) return false;
  }
  return true;
}

void RingRuns::end_all(Run& run) {
  const TraceRing& ring = rings_.ring(run.ring);
  const auto next = [&ring](size_t place) { return ring.ranks[(place + 1) % ring.ranks.size()]; };
  std::vector<int64_t> at, free;
  for (size_t place = 0; place < run.members.size(); ++place) {
    at.push_back(*run.members[place].entered);
    if (network_.congestion_aware()) free.push_back(messages_.free(ring.ranks[place], next(place)));
  }
  ring_times(run.steps, rings_.ways(run.steps.message_bytes, ring), at, free);
  for (size_t place = 0; place < run.members.size(); ++place) {
    events_.add(at[place], at[place] - run.steps.endpoint, TraceEvent::Kind::kNodeEnds,
                ring.ranks[place], run.members[place].index);
    if (!free.empty()) messages_.set_free(ring.ranks[place], next(place), free[place]);
  }
  run.closed = true;
  run.members = {};
}

void RingRuns::ready(int64_t now, uint32_t number, uint32_t place) {
  Run& run = runs_[number];
  if (run.closed) return;
  const TraceRing& ring = rings_.ring(run.ring);
  const auto next = static_cast<uint32_t>((place + 1) % ring.ranks.size());
  TraceMessage message;
  message.from = ring.ranks[place];
  message.to = ring.ranks[next];
  message.bytes = run.steps.message_bytes;
  message.of_ring = true;
  message.run = number;
  message.place = next;
  messages_.send(now, message);
  Member& member = run.members[place];
  member.waits = true;
  if (member.arrived > member.step) take_step(now, number, place);
}

void RingRuns::message_arrived(int64_t now, const TraceMessage& message) {
  Member& member = runs_[message.run].members[message.place];
  ++member.arrived;
  if (member.waits && member.arrived > member.step) take_step(now, message.run, message.place);
}

void RingRuns::take_step(int64_t now, uint32_t number, uint32_t place) {
  Run& run = runs_[number];
  const RingSteps& steps = run.steps;
  Member& member = run.members[place];
  member.waits = false;
  const int64_t reduced = now + (member.step % steps.steps < steps.reducing ? steps.reduce : 0);
  int64_t next = reduced + steps.endpoint;
  ++member.step;
  if (member.step == steps.steps * steps.chunks) {
    events_.add(next, reduced, TraceEvent::Kind::kNodeEnds, rings_.ring(run.ring).ranks[place],
                member.index);
    if (++run.ended == run.members.size()) {
      run.closed = true;
      run.members = {};
    }
    return;
  }
  if (member.step % steps.steps == 0) next += steps.endpoint;  // the next chunk begins
  events_.add(next, reduced, TraceEvent::Kind::kRingRankReady, number, place);
}

std::string RingRuns::waits_for(uint32_t rank, uint32_t index) const {
  for (const Run& run : runs_) {
    if (run.closed) continue;
    const TraceRing& ring = rings_.ring(run.ring);
    const auto own = ring.places.find(rank);
    if (own == ring.places.end()) continue;
    const Member& member = run.members[own->second];
    if (!member.entered || member.index != index) continue;
    for (size_t place = 0; place < run.members.size(); ++place) {
      if (!run.members[place].entered) {
        return "rank " + std::to_string(ring.ranks[place]) + ", which never begins it";
      }
    }
  }
  return "";
}

}  // namespace understudy
