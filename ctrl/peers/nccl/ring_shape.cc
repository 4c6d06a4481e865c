#include "ctrl/peers/nccl/ring_shape.h"

#include <algorithm>
#include <optional>

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
  // The real ranks with a place on a node, each with its segment and place there.
  struct Candidate {
    uint32_t rank, from_first, from_last;
  };
  std::vector<std::vector<Candidate>> by_place;
  for (const RingSegment& segment : segments_) {
    const uint32_t size = (segment.last + ranks_ - segment.first) % ranks_ + 1;
    for (uint32_t i = 0; i < size; ++i) {
      const uint32_t rank = (segment.first + i) % ranks_;
      if (by_place.size() <= members[rank].local) by_place.resize(members[rank].local + 1);
      by_place[members[rank].local].push_back({rank, i, size - 1 - i});
    }
  }
  // At step i of a link a real rank that is so far from the ends of its segment has been heard of:
  // what it sends waits for nothing of ours but sizes and the payloads of the steps before.
  const auto comes_in_time = [&](const Candidate& c, uint32_t step) {
    if (order_ == RingOrder::kBothWays) return std::min(c.from_first, c.from_last) <= step;
    return c.from_last == 0 || c.from_first > 0 || step > 0;
  };
  constexpr size_t kTried = 16;  // nodes with real ranks; the rest are as good
  for (size_t s = 0; s < segments_.size(); ++s) {
    const RingSegment& behind = segments_[s];
    const uint32_t end = segments_[(s + 1) % segments_.size()].before;
    const uint32_t count = (end + ranks_ - behind.after) % ranks_ + 1;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t rank = (behind.after + i) % ranks_;
      const uint32_t to_end = count - 1 - i;
      const uint32_t step = order_ == RingOrder::kBothWays ? std::min(i, to_end) : to_end;
      models_[rank] = behind.last;
      const NcclMember& member = members[rank];
      if (member.local >= by_place.size()) continue;
      const std::vector<Candidate>& candidates = by_place[member.local];
      for (size_t c = 0; c < std::min(candidates.size(), kTried); ++c) {
        // A node of another size has other chains: then the places do not correspond.
        if (members[candidates[c].rank].node_ranks != member.node_ranks) continue;
        if (!comes_in_time(candidates[c], step)) continue;
        models_[rank] = candidates[c].rank;
        break;
      }
    }
  }
}

}  // namespace understudy
