#include "ctrl/peers/nccl/bootstrap/ring_shape.h"

#include <algorithm>
#include <map>

namespace understudy {

RingShape::RingShape(const std::vector<NcclMember>& members, RingOrder order)
    : ranks_(static_cast<uint32_t>(members.size())), order_(order) {
  find_segments(members);
  models_.resize(ranks_);
  if (!segments_.empty()) find_models(members);
}

uint32_t RingShape::steps_forward() const {
  return order_ == RingOrder::kBothWays ? ranks_ / 2 : ranks_ - 1;
}

uint32_t RingShape::steps_backward() const {
  return order_ == RingOrder::kBothWays ? ranks_ - 1 - ranks_ / 2 : 0;
}

void RingShape::find_segments(const std::vector<NcclMember>& members) {
  const auto real = [&](uint32_t rank) { return members[rank % ranks_].real; };
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (!real(rank) || real(rank + ranks_ - 1)) continue;
    uint32_t last = rank;
    while (real(last + 1)) ++last;
    segments_.push_back({rank, last % ranks_, (rank + ranks_ - 1) % ranks_, (last + 1) % ranks_});
  }
}

/// It reaches us without our payload of that step or a later one. One way a rank in turn sends what
/// it has and then waits for more, so that all of a segment's slices come at once; where sizes are
/// exchanged before payloads a payload waits for the rank two places before it to have sent that of
/// the step before.
bool RingShape::comes_before(uint32_t real, uint32_t emulated) const {
  const Place& place = places_[real];
  const uint32_t step = places_[emulated].step;
  if (order_ == RingOrder::kInTurn) return true;
  if (order_ == RingOrder::kBothWays) return std::min(place.from_first, place.from_last) <= step;
  return place.from_last < step + (place.length + 1) / 2;
}

void RingShape::find_models(const std::vector<NcclMember>& members) {
  places_.resize(ranks_);
  for (size_t s = 0; s < segments_.size(); ++s) {
    const RingSegment& segment = segments_[s];
    const uint32_t length = (segment.last + ranks_ - segment.first) % ranks_ + 1;
    for (uint32_t i = 0; i < length; ++i) {
      places_[(segment.first + i) % ranks_] = {length, i, length - 1 - i, 0};
    }
    const uint32_t end = segments_[(s + 1) % segments_.size()].before;
    const uint32_t count = (end + ranks_ - segment.after) % ranks_ + 1;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t rank = (segment.after + i) % ranks_, to_end = count - 1 - i;
      models_[rank] = segment.last;
      places_[rank].step = order_ == RingOrder::kBothWays ? std::min(i, to_end) : to_end;
    }
  }
  std::map<uint32_t, std::vector<uint32_t>> real_nodes, emulated_nodes;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    (members[rank].real ? real_nodes : emulated_nodes)[members[rank].node].push_back(rank);
  }
  for (const auto& [node, ranks] : emulated_nodes) {
    size_t tried = 0;
    for (const auto& [real_node, real] : real_nodes) {
      constexpr size_t kMostTried = 16;  // more would cost, and be no better
      if (++tried > kMostTried) break;
      if (real.size() != ranks.size()) continue;  // its chains are others
      bool fits = true;
      for (size_t i = 0; i < ranks.size(); ++i) {
        fits = fits && comes_before(real[i], ranks[i]);
      }
      if (!fits) continue;
      for (size_t i = 0; i < ranks.size(); ++i) models_[ranks[i]] = real[i];
      break;
    }
  }
}

}  // namespace understudy
