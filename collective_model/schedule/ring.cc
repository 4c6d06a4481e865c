#include "collective_model/schedule/ring.h"

#include <algorithm>

#include "collective_model/schedule/simple_all_reduce.h"

namespace understudy {

RingRankSchedule::RingRankSchedule(const Communicator& communicator, const Operation& operation,
                                   const OperationCut& cut, uint32_t rank)
    : communicator_(communicator),
      collective_(operation.collective),
      rank_(rank),
      part_bytes_(operation.bytes()),
      element_(operation.element()),
      ranks_(communicator.ranks()) {
  const bool all_reduce = collective_ == Collective::kAllReduce;
  steps_ = all_reduce ? 2 * (ranks_ - 1) : ranks_ - 1;
  for (uint32_t i = 0; i < cut.parts.size(); ++i) {
    const Lane lane = make_lane(communicator, operation, cut, i, all_reduce ? ranks_ : 1);
    const uint32_t x = communicator.ring_position(lane.channel, rank);
    const uint32_t next = communicator.ring_rank(lane.channel, (x + 1) % ranks_);
    const uint32_t previous = communicator.ring_rank(lane.channel, (x + ranks_ - 1) % ranks_);
    Connection send = lane_connection(communicator, lane, rank, next, Direction::kSend);
    Connection receive = lane_connection(communicator, lane, previous, rank, Direction::kReceive);
    send.messages = uint64_t{lane.chunks.loops()} * steps_ * lane.chunking.slices();
    receive.messages = send.messages;
    connections_.push_back(send);
    connections_.push_back(receive);
    lanes_.push_back(lane);
    positions_.push_back(x);
    slices_.push_back(lane.chunking.slices());
  }
}

Message RingRankSchedule::message(uint32_t connection, uint64_t k) const {
  const Lane& lane = lanes_[connection / 2];
  const bool sends = connection % 2 == 0;
  const uint32_t x = (positions_[connection / 2] + (sends ? 0 : ranks_ - 1)) % ranks_;
  const uint32_t slices = lane.chunking.slices();
  const auto loop = static_cast<uint32_t>(k / slices / steps_);
  const auto step = static_cast<uint32_t>(k / slices % steps_);
  const auto slice = static_cast<uint32_t>(k % slices);
  if (collective_ == Collective::kAllReduce) {
    const Chunk chunk = lane.chunks.chunk(loop, all_reduce_chunk(ranks_, x, step));
    return slice_message(lane, chunk, slice, element_);
  }
  // All-gather starts with the rank's own part, reduce-scatter with its predecessor's.
  const uint32_t start = collective_ == Collective::kAllGather ? x : x + ranks_ - 1;
  const uint32_t owner = communicator_.ring_rank(lane.channel, (start + ranks_ - step) % ranks_);
  Chunk chunk = lane.chunks.chunk(loop, 0);
  chunk.offset += uint64_t{owner} * part_bytes_;
  return slice_message(lane, chunk, slice, element_);
}

uint64_t RingRankSchedule::alternates_until(uint32_t connection, uint64_t k) const {
  const Lane& lane = lanes_[connection / 2];
  const uint64_t slices = lane.chunking.slices(), per_loop = steps_ * slices;
  const uint64_t tail = (lane.chunks.loops() - 1) * per_loop, all = tail + per_loop;
  if (slices > 2) return k + 1;
  if (k < tail) return tail;
  if (collective_ != Collective::kAllReduce) return all;
  // Chunks come in descending order, then the last one again; the first are whole, and the most.
  const uint32_t loop = lane.chunks.loops() - 1;
  const uint32_t x = (positions_[connection / 2] + (connection % 2 == 0 ? 0 : ranks_ - 1)) % ranks_;
  const uint64_t step = (k - tail) / slices;
  const uint32_t c = all_reduce_chunk(ranks_, x, static_cast<uint32_t>(step));
  if (lane.chunks.chunk(loop, ranks_ - 1).bytes == lane.chunks.chunk(loop, 0).bytes) return all;
  if (lane.chunks.chunk(loop, c).bytes != lane.chunks.chunk(loop, 0).bytes) {
    return tail + (step + 1) * slices;
  }
  return std::min(all, tail + (step + c + 1) * slices);
}

Waits RingRankSchedule::waits(uint32_t connection, uint64_t k) const {
  const uint32_t send = connection & ~1u, receive = send + 1;
  const uint32_t slices = slices_[connection / 2];
  const uint64_t per_loop = uint64_t{steps_} * slices;
  const uint64_t place = k < per_loop ? k : k % per_loop;  // in the loop
  Waits waits;
  if (connection == send) {
    if (place >= slices) {
      waits.add(Wait::Moment::kArrival, receive, k - slices);
    } else if (k >= per_loop) {
      waits.add(Wait::Moment::kDone, receive, k - place - 1);
    }
  } else if (place + slices < per_loop) {
    waits.add(Wait::Moment::kDone, send, k + slices);  // the send that carries it on
  } else {
    waits.add(Wait::Moment::kDone, send, k - place + per_loop - 1);
  }
  return waits;
}

/// The first step sends the rank's own; an all-reduce then reduces up to the step after which a
/// chunk has all contributions, a reduce-scatter always, an all-gather never.
ValuePart RingRankSchedule::value_part(uint32_t connection, uint64_t k, uint32_t) const {
  const uint32_t step = step_of(connection, k);
  const Message m = message(connection, k);
  const bool gathers = collective_ == Collective::kAllGather;
  ValuePart part;
  part.bytes = m.data;
  part.own = step == 0 || (!gathers && (collective_ != Collective::kAllReduce || step < ranks_));
  part.from = gathers ? m.offset - rank_ * part_bytes_ : m.offset;
  if (step > 0) part.add({connection + 1, k - slices_[connection / 2], 0});
  return part;
}

uint32_t RingRankSchedule::result_parts(uint32_t connection, uint64_t k) const {
  return collective_ == Collective::kAllGather || step_of(connection, k) + 2 >= ranks_ ? 1 : 0;
}

ValuePart RingRankSchedule::result_part(uint32_t connection, uint64_t k, uint32_t) const {
  const Message m = message(connection, k);
  const bool scatters = collective_ == Collective::kReduceScatter;
  ValuePart part;
  part.bytes = m.data;
  part.own = collective_ != Collective::kAllGather && step_of(connection, k) + 2 == ranks_;
  part.from = m.offset;
  part.to = scatters ? m.offset - rank_ * part_bytes_ : m.offset;
  part.add({connection, k, 0});
  return part;
}

PipelineRankSchedule::PipelineRankSchedule(const Communicator& communicator,
                                           const Operation& operation, const OperationCut& cut,
                                           uint32_t rank)
    : broadcast_(operation.collective == Collective::kBroadcast), element_(operation.element()) {
  const uint32_t ranks = communicator.ranks();
  for (uint32_t i = 0; i < cut.parts.size(); ++i) {
    const Lane lane = make_lane(communicator, operation, cut, i, 1);
    const uint32_t x = communicator.ring_position(lane.channel, rank);
    const uint32_t root = communicator.ring_position(lane.channel, operation.root);
    const uint32_t first = broadcast_ ? root : (root + 1) % ranks;
    const uint32_t place = (x + ranks - first) % ranks;
    const uint32_t messages = lane.chunks.loops() * lane.chunking.slices();
    const auto self = static_cast<int64_t>(connections_.size());
    const bool sends = place + 1 < ranks, receives = place > 0;
    const auto add = [&](uint32_t from, uint32_t to, Direction direction) {
      connections_.push_back(lane_connection(communicator, lane, from, to, direction));
      connections_.back().messages = messages;
      lane_of_.push_back(i);
    };
    if (sends) {
      add(rank, communicator.ring_rank(lane.channel, (x + 1) % ranks), Direction::kSend);
      passes_on_.push_back(receives ? self + 1 : -1);
    }
    if (receives) {
      add(communicator.ring_rank(lane.channel, (x + ranks - 1) % ranks), rank, Direction::kReceive);
      passes_on_.push_back(sends ? self : -1);
    }
    lanes_.push_back(lane);
  }
}

Message PipelineRankSchedule::message(uint32_t connection, uint64_t k) const {
  const Lane& lane = lanes_[lane_of_[connection]];
  const uint32_t slices = lane.chunking.slices();
  return slice_message(lane, lane.chunks.chunk(static_cast<uint32_t>(k / slices), 0),
                       static_cast<uint32_t>(k % slices), element_);
}

Waits PipelineRankSchedule::waits(uint32_t connection, uint64_t k) const {
  Waits waits;
  const int64_t other = passes_on_[connection];
  if (other < 0) return waits;
  const bool sends = connections_[connection].direction == Direction::kSend;
  waits.add(sends ? Wait::Moment::kArrival : Wait::Moment::kDone, static_cast<uint32_t>(other), k);
  return waits;
}

ValuePart PipelineRankSchedule::value_part(uint32_t connection, uint64_t k, uint32_t) const {
  const Message m = message(connection, k);
  const int64_t received = passes_on_[connection];
  ValuePart part;
  part.bytes = m.data;
  part.own = !broadcast_ || received < 0;
  part.from = m.offset;
  if (received >= 0) part.add({static_cast<uint32_t>(received), k, 0});
  return part;
}

ValuePart PipelineRankSchedule::result_part(uint32_t connection, uint64_t k, uint32_t) const {
  const Message m = message(connection, k);
  ValuePart part;
  part.bytes = m.data;
  part.own = !broadcast_;
  part.from = part.to = m.offset;
  part.add({connection, k, 0});
  return part;
}

}  // namespace understudy
