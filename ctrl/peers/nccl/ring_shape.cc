#include "ctrl/peers/nccl/ring_shape.h"

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

void RingShape::find_models(const std::vector<NcclMember>& members) {
  // Of a real rank: its segment's length and how far it is from the ends. Of an emulated one: in
  // which step its slice is first sent to a real rank.
  struct Place {
    uint32_t length = 0, from_first = 0, from_last = 0, step = 0;
  };
  std::vector<Place> places(ranks_);
  for (size_t s = 0; s < segments_.size(); ++s) {
    const RingSegment& segment = segments_[s];
    const uint32_t length = (segment.last + ranks_ - segment.first) % ranks_ + 1;
    for (uint32_t i = 0; i < length; ++i) {
      places[(segment.first + i) % ranks_] = {length, i, length - 1 - i, 0};
    }
    const uint32_t end = segments_[(s + 1) % segments_.size()].before;
    const uint32_t count = (end + ranks_ - segment.after) % ranks_ + 1;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t rank = (segment.after + i) % ranks_, to_end = count - 1 - i;
      models_[rank] = segment.last;
      places[rank].step = order_ == RingOrder::kBothWays ? std::min(i, to_end) : to_end;
    }
  }
  // Whether a real rank's slice reaches us without our payload of that step or a later one. Sizes
  // are exchanged before payloads, so one way a payload waits for the rank two places before it to
  // have sent that of the step before.
  const auto comes_in_time = [&](uint32_t real, uint32_t step) {
    const Place& place = places[real];
    if (order_ == RingOrder::kBothWays) return std::min(place.from_first, place.from_last) <= step;
    return place.from_last < step + (place.length + 1) / 2;
  };
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
        fits = fits && comes_in_time(real[i], places[ranks[i]].step);
      }
      if (!fits) continue;
      for (size_t i = 0; i < ranks.size(); ++i) models_[ranks[i]] = real[i];
      break;
    }
  }
}

}  // namespace understudy
