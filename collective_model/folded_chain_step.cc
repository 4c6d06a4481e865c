// The recurrence of one rank and message.
#include <algorithm>

#include "collective_model/folded_chain.h"

namespace understudy {

bool FoldedChain::done_at(uint32_t node, uint32_t place, int64_t m, Time& t) {
  const int64_t index = m - shift_ * int64_t{node * gpus_ + place};
  const uint32_t at = position(node, done_slot(place));
  if (index >= created_ || diagonal(index).at <= at) {
    return wait(Need::Kind::kDiagonal, index, at);
  }
  t = time_at(diagonal(index), done_slot(place), node) + base_[node];
  return true;
}

/// When message `m` of a rank starts, and its time on the wire or inside the node.
bool FoldedChain::start_at(uint32_t node, uint32_t place, int64_t m, Time& t, Duration& time) {
  const uint32_t rank = node * gpus_ + place;
  const int64_t index = m - shift_ * int64_t{rank};
  const uint32_t at = position(node, start_slot(place));
  if (index >= created_ || diagonal(index).at <= at) {
    return wait(Need::Kind::kDiagonal, index, at);
  }
  const Diagonal& d = diagonal(index);
  t = time_at(d, start_slot(place), node) + base_[node];
  time = place + 1 < gpus_ ? inner_time(d, m, rank) : wire(d, m, node);
  return true;
}

/// When what a rank receives as message `m` can be used.
bool FoldedChain::arrival(uint32_t node, uint32_t place, int64_t m, Time& t) {
  Duration time;
  if (place > (node == 0 ? c_.skipped : 0)) {
    if (!c_.inside) return done_at(node, place - 1, m, t);
    if (!start_at(node, place - 1, m, t, time)) return false;
    t += time + c_.inside->latency;
    return true;
  }
  if (node == 0) {
    if (arrived_ <= m) return wait(Need::Kind::kArrival, m);
    t = arrivals_[static_cast<size_t>(m)];
    return true;
  }
  if (!start_at(node - 1, gpus_ - 1, m, t, time)) return false;
  t += time + latency(node - 1) + c_.step;
  return true;
}

/// When a rank is done with message `m` that it receives: with the one that carries it on; in the
/// last step of a loop, with all of the loop. `d`: a diagonal near it.
bool FoldedChain::received(const Diagonal& d, uint32_t node, uint32_t place, int64_t m, Time& t) {
  const int64_t p = place_in_loop(d, m);
  if (p + shift_ < per_loop_) return done_at(node, place, m + shift_, t);
  Time came;
  if (!arrival(node, place, m, came) || !done_at(node, place, m - p + per_loop_ - 1, t)) {
    return false;
  }
  t = std::max(t, came);
  return true;
}

/// When a rank knows that its message `m` has been taken.
bool FoldedChain::acknowledged(const Diagonal& d, uint32_t node, uint32_t place, int64_t m,
                               Time& t) {
  if (place + 1 < gpus_) {
    if (!received(d, node, place + 1, m, t)) return false;
    if (c_.inside) t += c_.inside->latency;
    return true;
  }
  if (node + 1 == nodes_) {
    if (acked_ <= m) return wait(Need::Kind::kAcknowledged, m);
    t = acks_[static_cast<size_t>(m)];
    return true;
  }
  Duration on_wire;
  if (!start_at(node, place, m, t, on_wire)) return false;
  t += on_wire + latency(node) * 2;
  return true;
}

bool FoldedChain::step(int64_t index, Diagonal& d, uint32_t node, uint32_t slot) {
  const uint32_t place = c_.inside ? slot / 2 : std::min(slot, gpus_ - 1);
  Time t;
  if (slot == done_slot(place) ? !fill(index, d, node, place, t)
                               : !start(index, d, node, place, t)) {
    return false;
  }
  if (slot == 0) {
    rows_.skip_to(d.row, node);
    rows_.own(d.row, node);
  }
  rows_.push(d.row, slot, t - base_[node]);
  return true;
}

/// When a rank is done with the message that it sends.
bool FoldedChain::fill(int64_t index, const Diagonal& d, uint32_t node, uint32_t place, Time& t) {
  const uint32_t rank = node * gpus_ + place;
  const int64_t m = index + shift_ * rank;
  if (m == 0) {
    if (!entered(rank)) return wait(Need::Kind::kEntry, rank);
    t = entries_[rank];
  } else if (!done_at(node, place, m - 1, t)) {
    return false;
  }
  Time other;
  if (m >= window_ && !(c_.ends && rank + 1 == ranks_)) {
    if (!acknowledged(d, node, place, m - window_, other)) return false;
    t = std::max(t, other);
  }
  // What it passes on; or, at the start of a loop, all of the loop before.
  const int64_t p = place_in_loop(d, m);
  const int64_t waits = p >= shift_ ? m - shift_ : m - p - 1;
  if (waits >= 0 && !(c_.begins && rank == c_.skipped)) {
    if (!arrival(node, place, waits, other)) return false;
    t = std::max(t, other);
  }
  return true;
}

/// When the message starts over the hop from the node, or to the next rank of it.
bool FoldedChain::start(int64_t index, const Diagonal& d, uint32_t node, uint32_t place, Time& t) {
  const uint32_t rank = node * gpus_ + place;
  const int64_t m = index + shift_ * rank;
  t = time_at(diagonal(index), done_slot(place), node) + base_[node];
  Time other;
  Duration time;
  if (m >= 1) {
    if (!start_at(node, place, m - 1, other, time)) return false;
    t = std::max(t, other + time);
  }
  if (place + 1 < gpus_) return true;
  if (m < window_) {
    if (!entered(rank + 1)) return wait(Need::Kind::kEntry, rank + 1);
    other = entries_[rank + 1];
  } else if (!received(d, node + 1, 0, m - window_, other)) {
    return false;
  }
  t = std::max(t, other + latency(node));
  return true;
}

}  // namespace understudy
