#include "collective_model/schedule/heads.h"

#include "collective_model/nccl/double_tree.h"

namespace understudy {
namespace {

constexpr uint8_t kToHead = 2, kFromHead = 3;

/// The head of that GPU, if it is one.
std::optional<uint32_t> head_of(const Communicator& communicator, uint32_t rank) {
  const uint32_t gpu = communicator.gpu_of(rank);
  for (uint32_t head = 0; head < communicator.heads(); ++head) {
    if (communicator.head_gpu(head) == gpu) return head;
  }
  return std::nullopt;
}

}  // namespace

HeadsRankSchedule::HeadsRankSchedule(const Communicator& communicator, const Operation& operation,
                                     const OperationCut& cut, uint32_t rank)
    : algorithm_(operation.algorithm), element_(operation.element()), heads_(cut.parts.size()) {
  for (uint32_t lane = 0; lane < cut.parts.size(); ++lane) {
    lanes_.push_back(make_lane(communicator, operation, cut, lane, communicator.heads()));
    add_lane(communicator, lane, rank);
  }
}

/// The same GPU of other nodes, in the tree of a channel.
HeadsRankSchedule::Neighbours HeadsRankSchedule::neighbours(const Communicator& communicator,
                                                            uint32_t channel, uint32_t rank) const {
  Neighbours found;
  if (communicator.nodes < 2) return found;
  if (is_collnet(algorithm_)) {
    found.above = rank;
    return found;
  }
  const DoubleTree trees(communicator.nodes);
  const uint32_t tree = communicator.tree_of(channel);
  const uint32_t place = trees.place(tree, communicator.node_of(rank));
  const auto rank_at = [&](uint32_t other) {
    return trees.rank(tree, other) * communicator.gpus + communicator.gpu_of(rank);
  };
  if (place != 0) found.above = rank_at(trees.parent(place));
  for (uint32_t which = 0; which < 2; ++which) {
    if (const auto child = trees.child(place, which)) found.below.push_back(rank_at(*child));
  }
  return found;
}

Connection HeadsRankSchedule::inside(Connection c, uint8_t index, uint32_t shares) const {
  c.index = index;
  if (!is_nvls(algorithm_)) return c;
  c.shares = shares;
  c.in_switch = true;
  return c;
}

void HeadsRankSchedule::add(const Connection& connection, uint32_t lane, uint32_t head, Role role) {
  Connection c = connection;
  c.messages = lanes_[lane].chunks.loops();
  // One by itself, where a head's end is one of several.
  if (c.joint == 0) {
    c.joint = static_cast<uint32_t>(2 * heads_.size() + 1 + connections_.size());
  }
  connections_.push_back(c);
  places_.push_back({lane, head, role});
}

void HeadsRankSchedule::add_lane(const Communicator& communicator, uint32_t lane, uint32_t rank) {
  const std::optional<uint32_t> own = head_of(communicator, rank);
  const uint32_t first = communicator.node_of(rank) * communicator.gpus;
  // A head's own data cross its link too, for which there is no message.
  uint32_t shares = own ? 2 : 1;
  for (uint32_t head = 0; head < communicator.heads(); ++head) {
    if (own == head) continue;
    const Connection c = lane_connection(communicator, lanes_[lane], rank,
                                         first + communicator.head_gpu(head), Direction::kSend);
    add(inside(c, kToHead, shares), lane, head, Role::kGiven);
    shares = 1;
  }
  if (own) add_head(communicator, lane, rank, *own);
  for (uint32_t head = 0; head < communicator.heads(); ++head) {
    if (own == head) continue;
    const Connection c = lane_connection(
        communicator, lanes_[lane], first + communicator.head_gpu(head), rank, Direction::kReceive);
    add(inside(c, kFromHead, 1), lane, head, Role::kTaken);
  }
}

void HeadsRankSchedule::add_head(const Communicator& communicator, uint32_t lane, uint32_t rank,
                                 uint32_t head) {
  const Neighbours tree = neighbours(communicator, lanes_[lane].channel, rank);
  // A root reduces and spreads in one go; the others do both at the same time.
  const uint32_t reduce = 2 * lane + 1, spread = tree.above ? 2 * lane + 2 : reduce;
  Head& own = heads_[lane];
  const auto made = [&](uint32_t from, uint32_t to, Direction direction, uint32_t joint) {
    Connection c = lane_connection(communicator, lanes_[lane], from, to, direction);
    c.joint = joint;
    if (from == to) c.network = true;
    return c;
  };
  const auto next = [&] { return static_cast<uint32_t>(connections_.size()); };
  const auto reduces = [&](const Connection& c) {
    own.reduced.push_back(next());
    add(c, lane, head, Role::kReduced);
  };
  const uint32_t first = communicator.node_of(rank) * communicator.gpus;
  for (uint32_t other = first; other < first + communicator.gpus; ++other) {
    if (other == rank) continue;
    reduces(inside(made(other, rank, Direction::kReceive, reduce), kToHead, 1));
  }
  for (const uint32_t below : tree.below) reduces(made(below, rank, Direction::kReceive, reduce));
  if (tree.above) {
    own.up = next();
    add(made(rank, *tree.above, Direction::kSend, reduce), lane, head, Role::kUp);
    own.above = next();
    add(made(*tree.above, rank, Direction::kReceive, spread), lane, head, Role::kAbove);
  }
  own.first_spread = next();
  uint32_t shares = 1;  // the switch makes the copies
  for (uint32_t other = first; other < first + communicator.gpus; ++other) {
    if (other == rank) continue;
    add(inside(made(rank, other, Direction::kSend, spread), kFromHead, shares), lane, head,
        Role::kSpread);
    shares = 0;
  }
  for (const uint32_t below : tree.below) {
    add(made(rank, below, Direction::kSend, spread), lane, head, Role::kSpread);
  }
}

Message HeadsRankSchedule::message(uint32_t connection, uint64_t k) const {
  const Place& place = places_[connection];
  const Lane& lane = lanes_[place.lane];
  return slice_message(lane, lane.chunks.chunk(static_cast<uint32_t>(k), place.head), 0, element_);
}

Waits HeadsRankSchedule::waits(uint32_t connection, uint64_t k) const {
  const Place& place = places_[connection];
  const Head& head = heads_[place.lane];
  Waits waits;
  switch (place.role) {
    case Role::kReduced:
      waits.add(Wait::Moment::kDone, head.up.value_or(head.first_spread), k);
      break;
    case Role::kAbove:
      waits.add(Wait::Moment::kDone, head.first_spread, k);
      break;
    case Role::kUp:
    case Role::kSpread:
      if (place.role == Role::kSpread && head.above) {
        waits.add(Wait::Moment::kArrival, *head.above, k);
        break;
      }
      for (const uint32_t c : head.reduced) waits.add(Wait::Moment::kArrival, c, k);
      break;
    case Role::kGiven:
    case Role::kTaken:
      break;
  }
  return waits;
}

ValuePart HeadsRankSchedule::reduced(const Head& head, const Message& message, uint64_t k) const {
  ValuePart part;
  part.bytes = message.data;
  part.own = true;
  part.from = part.to = message.offset;
  for (const uint32_t c : head.reduced) part.add({c, k, 0});
  return part;
}

ValuePart HeadsRankSchedule::value_part(uint32_t connection, uint64_t k, uint32_t) const {
  const Place& place = places_[connection];
  const Head& head = heads_[place.lane];
  const Message m = message(connection, k);
  if (place.role == Role::kUp || (place.role == Role::kSpread && !head.above)) {
    return reduced(head, m, k);
  }
  ValuePart part;
  part.bytes = m.data;
  part.from = m.offset;
  part.own = place.role == Role::kGiven;
  if (place.role == Role::kSpread) part.add({*head.above, k, 0});
  return part;
}

uint32_t HeadsRankSchedule::result_parts(uint32_t connection, uint64_t) const {
  const Place& place = places_[connection];
  const Head& head = heads_[place.lane];
  if (place.role == Role::kTaken || place.role == Role::kAbove) return 1;
  return !head.above && place.role == Role::kReduced && head.reduced.front() == connection ? 1 : 0;
}

ValuePart HeadsRankSchedule::result_part(uint32_t connection, uint64_t k, uint32_t) const {
  const Place& place = places_[connection];
  const Message m = message(connection, k);
  if (place.role == Role::kReduced) return reduced(heads_[place.lane], m, k);
  ValuePart part;
  part.bytes = m.data;
  part.from = part.to = m.offset;
  part.add({connection, k, 0});
  return part;
}

}  // namespace understudy
