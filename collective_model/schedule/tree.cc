#include "collective_model/schedule/tree.h"

#include "collective_model/nccl/double_tree.h"

namespace understudy {
namespace {

/// Place in a node's chain of the GPU that talks to child 0 of the node; child 1 and the parent
/// are with the first one.
uint32_t child_place(const Communicator& communicator, uint32_t which) {
  return which == 0 && communicator.gpus > 1 ? 1 : 0;
}

}  // namespace

TreePlace tree_place(const Communicator& communicator, uint32_t channel, uint32_t rank) {
  const DoubleTree trees(communicator.nodes);
  const uint32_t tree = communicator.tree_of(channel);
  const uint32_t node = communicator.node_of(rank);
  const uint32_t chain = communicator.place_of(channel, communicator.gpu_of(rank));
  const uint32_t place = trees.place(tree, node);
  const auto rank_at = [&](uint32_t other, uint32_t at) {
    return trees.rank(tree, other) * communicator.gpus + communicator.gpu_at(channel, at);
  };
  TreePlace result;
  if (chain > 0) {
    result.up = rank_at(place, chain - 1);
  } else if (place != 0) {
    const uint32_t parent = trees.parent(place);
    result.up = rank_at(parent, child_place(communicator, place < parent ? 0 : 1));
  }
  if (chain + 1 < communicator.gpus) result.down.push_back(rank_at(place, chain + 1));
  for (uint32_t which = 0; which < 2; ++which) {
    const auto child = trees.child(place, which);
    if (child && chain == child_place(communicator, which)) {
      result.down.push_back(rank_at(*child, 0));
    }
  }
  return result;
}

TreePlace chain_place(const Communicator& communicator, uint32_t channel, uint32_t rank) {
  const uint32_t first = communicator.node_of(rank) * communicator.gpus;
  const uint32_t chain = communicator.place_of(channel, communicator.gpu_of(rank));
  TreePlace result;
  result.up = chain == 0 ? rank : first + communicator.gpu_at(channel, chain - 1);
  if (chain + 1 < communicator.gpus) {
    result.down.push_back(first + communicator.gpu_at(channel, chain + 1));
  }
  return result;
}

TreeRankSchedule::TreeRankSchedule(const Communicator& communicator, const Operation& operation,
                                   const OperationCut& cut, uint32_t rank)
    : element_(operation.element()) {
  for (uint32_t i = 0; i < cut.parts.size(); ++i) {
    LanePlace lane;
    lane.lane = make_lane(communicator, operation, cut, i, 1);
    lane.first = static_cast<uint32_t>(connections_.size());
    const TreePlace place = operation.algorithm == Algorithm::kCollnetChain
                                ? chain_place(communicator, lane.lane.channel, rank)
                                : tree_place(communicator, lane.lane.channel, rank);
    lane.root = !place.up.has_value();
    lane.downs = static_cast<uint32_t>(place.down.size());
    // The root reduces and spreads in one go; the others do both at the same time.
    const uint32_t reduce = 2 * i + 1, spread = lane.root ? reduce : 2 * i + 2;
    const auto add = [&](uint32_t from, uint32_t to, Direction direction, uint32_t joint) {
      connections_.push_back(lane_connection(communicator, lane.lane, from, to, direction));
      connections_.back().messages = lane.lane.chunks.loops();
      connections_.back().joint = joint;
      if (from == to) connections_.back().network = true;
      lane_of_.push_back(i);
    };
    if (place.up) {
      add(rank, *place.up, Direction::kSend, reduce);
      add(*place.up, rank, Direction::kReceive, spread);
    }
    for (const uint32_t down : place.down) {
      add(down, rank, Direction::kReceive, reduce);
      add(rank, down, Direction::kSend, spread);
    }
    lanes_.push_back(lane);
  }
}

std::vector<uint32_t> TreeRankSchedule::lanes() const {
  std::vector<uint32_t> first;
  for (const LanePlace& lane : lanes_) first.push_back(lane.first);
  return first;
}

Message TreeRankSchedule::message(uint32_t connection, uint64_t k) const {
  const Lane& lane = lanes_[lane_of_[connection]].lane;
  return slice_message(lane, lane.chunks.chunk(static_cast<uint32_t>(k), 0), 0, element_);
}

Waits TreeRankSchedule::waits(uint32_t connection, uint64_t k) const {
  const LanePlace& lane = lanes_[lane_of_[connection]];
  const uint32_t downs = lane.first_down();
  const bool upper = !lane.root && connection < downs;
  const bool sends = connections_[connection].direction == Direction::kSend;
  Waits waits;
  const auto all_below = [&] {
    for (uint32_t d = 0; d < lane.downs; ++d) waits.add(Wait::Moment::kArrival, downs + 2 * d, k);
  };
  if (upper) {
    if (sends) {
      all_below();
    } else if (lane.downs > 0) {
      waits.add(Wait::Moment::kDone, downs + 1, k);
    }
  } else if (sends) {
    if (lane.root) {
      all_below();
    } else {
      waits.add(Wait::Moment::kArrival, lane.first + 1, k);
    }
  } else {
    waits.add(Wait::Moment::kDone, lane.root ? downs + 1 : lane.first, k);
  }
  return waits;
}

void TreeRankSchedule::add_all_below(ValuePart& part, const LanePlace& lane, uint64_t k) const {
  part.own = true;
  for (uint32_t d = 0; d < lane.downs; ++d) part.add({lane.first_down() + 2 * d, k, 0});
}

/// What goes up, and what the root spreads, is reduced; all else that goes down came from above.
ValuePart TreeRankSchedule::value_part(uint32_t connection, uint64_t k, uint32_t) const {
  const LanePlace& lane = lanes_[lane_of_[connection]];
  const Message m = message(connection, k);
  ValuePart part;
  part.bytes = m.data;
  part.from = m.offset;
  if (lane.root || connection < lane.first_down()) {
    add_all_below(part, lane, k);
  } else {
    part.add({lane.first + 1, k, 0});
  }
  return part;
}

uint32_t TreeRankSchedule::result_parts(uint32_t connection, uint64_t) const {
  const LanePlace& lane = lanes_[lane_of_[connection]];
  return connection == (lane.root ? lane.first : lane.first + 1) ? 1 : 0;
}

ValuePart TreeRankSchedule::result_part(uint32_t connection, uint64_t k, uint32_t) const {
  const LanePlace& lane = lanes_[lane_of_[connection]];
  const Message m = message(connection, k);
  ValuePart part;
  part.bytes = m.data;
  part.from = part.to = m.offset;
  if (lane.root) {
    add_all_below(part, lane, k);
  } else {
    part.add({connection, k, 0});
  }
  return part;
}

}  // namespace understudy
