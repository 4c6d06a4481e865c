#include "collective_model/schedule/pat.h"

#include <algorithm>
#include <bit>

namespace understudy {
PatRankSchedule::PatRankSchedule(const Communicator& communicator, const Operation& operation,
                                 const OperationCut& cut, uint32_t rank,
                                 const PatRankSchedule* other)
    : gather_(operation.collective == Collective::kAllGather),
      ranks_(communicator.ranks()),
      dimensions_(static_cast<uint32_t>(std::countr_zero(std::bit_ceil(ranks_)))),
      block_bytes_(operation.bytes()) {
  for (uint32_t i = 0; i < cut.parts.size(); ++i) {
    const Lane lane = make_lane(communicator, operation, cut, i, 1);
    lanes_.push_back({lane, other != nullptr ? other->lanes_[i].pattern
                                             : std::make_shared<const PatPattern>(
                                                   gather_, ranks_, cut.parts[i].bytes,
                                                   lane.chunking.chunk_bytes,
                                                   communicator.version >= kPatGapsSince)});
    const uint64_t part_bytes = cut.parts[i].bytes * ranks_;
    for (uint32_t d = 0; d < dimensions_; ++d) {
      const uint32_t hop = 1u << d;
      const uint32_t ahead = (rank + hop) % ranks_,
                     behind = (rank + ranks_ - hop % ranks_) % ranks_;
      Connection send =
          lane_connection(communicator, lane, rank, gather_ ? behind : ahead, Direction::kSend);
      Connection receive =
          lane_connection(communicator, lane, gather_ ? ahead : behind, rank, Direction::kReceive);
      send.messages = uint64_t{lane.chunks.loops()} * lanes_.back().pattern->messages(d).size();
      receive.messages = send.messages;
      // A credit offers no more than the whole part of the channel.
      send.capacity = static_cast<uint32_t>(std::min<uint64_t>(send.capacity, part_bytes));
      receive.capacity = send.capacity;
      connections_.push_back(send);
      connections_.push_back(receive);
    }
  }
}

Message PatRankSchedule::message(uint32_t connection, uint64_t k) const {
  const LanePattern& lane = lane_of(connection);
  const uint32_t d = dimension_of(connection);
  const std::vector<PatPattern::Group>& groups = lane.pattern->messages(d);
  const PatPattern::Group& group = groups[k % groups.size()];
  const Chunk chunk = lane.lane.chunks.chunk(static_cast<uint32_t>(k / groups.size()), 0);
  const Connection& c = connections_[connection];
  const uint64_t owner = (c.from + group.first_piece) % ranks_;
  Message message;
  message.data = group.pieces * chunk.bytes;
  message.wire = message.data;
  message.offset = owner * block_bytes_ + chunk.offset;
  return message;
}

Waits PatRankSchedule::waits(uint32_t connection, uint64_t k) const {
  const LanePattern& lane = lane_of(connection);
  const uint32_t d = dimension_of(connection);
  const uint32_t first = connection / (2 * dimensions_) * (2 * dimensions_);
  const std::vector<PatPattern::Group>& groups = lane.pattern->messages(d);
  const uint64_t chunk = k / groups.size();
  const PatPattern::Group& group = groups[k % groups.size()];
  Waits waits;
  if (connections_[connection].direction == Direction::kSend) {
    for (const PatPattern::Need& need : group.needs) {
      const uint64_t each = lane.pattern->messages(need.dimension).size();
      waits.add(Wait::Moment::kArrival, first + 2 * need.dimension + 1,
                chunk * each + need.message);
    }
  } else if (gather_ && group.last_use >= 0) {
    const uint64_t each = lane.pattern->messages(0).size();
    waits.add(Wait::Moment::kDone, first, chunk * each + static_cast<uint64_t>(group.last_use));
  }
  return waits;
}

}  // namespace understudy
