#include "collective_model/schedule/pat.h"

#include <algorithm>
#include <bit>

namespace understudy {
PatRankSchedule::PatRankSchedule(const Communicator& communicator, const Operation& operation,
                                 const OperationCut& cut, uint32_t rank,
                                 const PatRankSchedule* other)
    : gather_(operation.collective == Collective::kAllGather),
      rank_(rank),
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

Chunk PatRankSchedule::chunk_of(uint32_t connection, uint64_t k, uint64_t& number) const {
  const LanePattern& lane = lane_of(connection);
  number = k / lane.pattern->messages(dimension_of(connection)).size();
  return lane.lane.chunks.chunk(static_cast<uint32_t>(number), 0);
}

/// Where a received piece of a chunk is; `connection`: any one of its lane.
ValuePart::Source PatRankSchedule::source(uint32_t connection, uint64_t chunk, uint32_t bytes,
                                          uint32_t piece) const {
  const uint32_t first = connection / (2 * dimensions_) * (2 * dimensions_);
  const PatPattern& pattern = *lane_of(connection).pattern;
  const PatPattern::Arrival a = pattern.arrival(piece);
  return {first + 2 * a.dimension + 1, chunk * pattern.messages(a.dimension).size() + a.message,
          a.place * bytes};
}

/// What reduce-scatter adds to the rank's own of a piece.
void PatRankSchedule::add_all(ValuePart& part, uint32_t connection, uint64_t chunk,
                              uint32_t piece) const {
  lane_of(connection).pattern->each_added(piece, [&](uint32_t e) {
    part.add(source(connection, chunk, part.bytes, piece + (1u << e)));
  });
}

uint32_t PatRankSchedule::value_parts(uint32_t connection, uint64_t k) const {
  return static_cast<uint32_t>(group_of(connection, k).blocks.size());
}

ValuePart PatRankSchedule::value_part(uint32_t connection, uint64_t k, uint32_t i) const {
  const PatPattern::Group::Block block = group_of(connection, k).blocks[i];
  uint64_t number = 0;
  const Chunk chunk = chunk_of(connection, k, number);
  ValuePart part;
  part.bytes = chunk.bytes;
  part.at = block.place * chunk.bytes;
  part.own = !gather_ || block.piece == 0;
  part.from = chunk.offset;
  if (!gather_) {
    part.from += uint64_t{(rank_ + block.piece) % ranks_} * block_bytes_;
    add_all(part, connection, number, block.piece);
  } else if (block.piece != 0) {
    part.add(source(connection, number, chunk.bytes, block.piece));
  }
  return part;
}

uint32_t PatRankSchedule::result_parts(uint32_t connection, uint64_t k) const {
  const PatPattern::Group& group = group_of(connection, k);
  if (gather_) return static_cast<uint32_t>(group.blocks.size());
  const bool last = dimension_of(connection) == 0 &&
                    std::ranges::any_of(group.blocks, [](auto& b) { return b.piece == 1; });
  return last ? 1 : 0;
}

ValuePart PatRankSchedule::result_part(uint32_t connection, uint64_t k, uint32_t i) const {
  uint64_t number = 0;
  const Chunk chunk = chunk_of(connection, k, number);
  ValuePart part;
  part.bytes = chunk.bytes;
  part.to = chunk.offset;
  if (gather_) {
    const PatPattern::Group::Block block = group_of(connection, k).blocks[i];
    const uint32_t piece = block.piece + (1u << dimension_of(connection));  // as this rank counts
    part.to += uint64_t{(rank_ + piece) % ranks_} * block_bytes_;
    part.add({connection, k, block.place * chunk.bytes});
  } else {
    part.own = true;
    part.from = uint64_t{rank_} * block_bytes_ + chunk.offset;
    add_all(part, connection, number, 0);
  }
  return part;
}

}  // namespace understudy
