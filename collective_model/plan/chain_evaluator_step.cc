// The recurrence of one rank and message.
#include <algorithm>

#include "collective_model/plan/chain_evaluator.h"

namespace understudy {

template <bool kOne>
bool ChainEvaluator::done_at(uint32_t node, uint32_t place, int64_t m, Time& t) {
  const int64_t index = m - shift_ * int64_t{node * gpus<kOne>() + place};
  const uint32_t at = node * slots<kOne>() + done_slot_of<kOne>(place);
  if (index >= created_ || diagonal(index).at <= at) {
    return wait(Need::Kind::kDiagonal, index, at);
  }
  t = time_at(diagonal(index), done_slot_of<kOne>(place), node) + base_[node];
  return true;
}

/// When message `m` of a rank starts, and its time on the wire or inside the node.
template <bool kOne>
inline bool ChainEvaluator::start_at(uint32_t node, uint32_t place, int64_t m, Time& t,
                                     Duration& time) {
  const uint32_t rank = node * gpus<kOne>() + place;
  const int64_t index = m - shift_ * int64_t{rank};
  const uint32_t at = node * slots<kOne>() + done_slot_of<kOne>(place) + 1;
  if (index >= created_ || diagonal(index).at <= at) {
    return wait(Need::Kind::kDiagonal, index, at);
  }
  const Diagonal& d = diagonal(index);
  t = time_at(d, done_slot_of<kOne>(place) + 1, node) + base_[node];
  time = place + 1 < gpus<kOne>() ? inner_time(d, m, rank) : wire(d, m, node);
  return true;
}

/// When what a rank receives as message `m` can be used.
template <bool kOne>
bool ChainEvaluator::arrival(uint32_t node, uint32_t place, int64_t m, Time& t) {
  Duration time;
  if (!kOne && place > (node == 0 ? c_.skipped : 0)) {
    if (!c_.inside) return done_at<kOne>(node, place - 1, m, t);
    if (!start_at<kOne>(node, place - 1, m, t, time)) return false;
    t += time + c_.inside->latency;
    return true;
  }
  if (node == 0) {
    if (arrived_ <= m) return wait(Need::Kind::kArrival, m);
    t = arrivals_[static_cast<size_t>(m)];
    return true;
  }
  if (!start_at<kOne>(node - 1, gpus<kOne>() - 1, m, t, time)) return false;
  t += time + latency(node - 1) + c_.step;
  return true;
}

/// When a rank is done with message `m` that it receives: with the one that carries it on; in the
/// last step of a loop, with all of the loop. `d`: a diagonal near it.
template <bool kOne>
bool ChainEvaluator::received(const Diagonal& d, uint32_t node, uint32_t place, int64_t m,
                              Time& t) {
  const int64_t p = place_in_loop(d, m);
  if (p + shift_ < per_loop_) return done_at<kOne>(node, place, m + shift_, t);
  Time came;
  if (!arrival<kOne>(node, place, m, came) ||
      !done_at<kOne>(node, place, m - p + per_loop_ - 1, t)) {
    return false;
  }
  t = std::max(t, came);
  return true;
}

/// When a rank knows that its message `m` has been taken.
template <bool kOne>
bool ChainEvaluator::acknowledged(const Diagonal& d, uint32_t node, uint32_t place, int64_t m,
                                  Time& t) {
  if (place + 1 < gpus<kOne>()) {
    if (!received<kOne>(d, node, place + 1, m, t)) return false;
    if (c_.inside) t += c_.inside->latency;
    return true;
  }
  if (node + 1 == nodes_) {
    if (acked_ <= m) return wait(Need::Kind::kAcknowledged, m);
    t = acks_[static_cast<size_t>(m)];
    return true;
  }
  Duration on_wire;
  if (!start_at<kOne>(node, place, m, t, on_wire)) return false;
  t += on_wire + acknowledged_after(node);
  return true;
}

template <bool kOne>
bool ChainEvaluator::step(int64_t index, Diagonal& d, uint32_t node, uint32_t slot) {
  const uint32_t place = kOne ? 0 : (c_.inside ? slot / 2 : std::min(slot, gpus<kOne>() - 1));
  Time t;
  if (slot == done_slot_of<kOne>(place) ? !fill<kOne>(index, d, node, place, t)
                                        : !start<kOne>(index, d, node, place, t)) {
    return false;
  }
  if (slot == 0) {
    rows_.skip_to(d.row, node);
    rows_.own(d.row, node);
  }
  rows_.push(d.row, slot, t - base_[node]);
  if (kOne && node == 0) (slot == 0 ? d.first_done : d.first_start) = t;
  return true;
}

/// When a rank is done with the message that it sends.
template <bool kOne>
bool ChainEvaluator::fill(int64_t index, const Diagonal& d, uint32_t node, uint32_t place,
                          Time& t) {
  const uint32_t rank = node * gpus<kOne>() + place;
  const int64_t m = index + shift_ * rank;
  if (m == 0) {
    if (!entered(rank)) return wait(Need::Kind::kEntry, rank);
    t = entries_[rank];
  } else if (!done_at<kOne>(node, place, m - 1, t)) {
    return false;
  }
  Time other;
  if (m >= window_ && !(c_.ends && rank + 1 == ranks_)) {
    if (!acknowledged<kOne>(d, node, place, m - window_, other)) return false;
    t = std::max(t, other);
  }
  // What it passes on; or, at the start of a loop, all of the loop before.
  const int64_t p = place_in_loop(d, m);
  const int64_t waits = p >= shift_ ? m - shift_ : m - p - 1;
  if (waits >= 0 && !(c_.begins && rank == c_.skipped)) {
    if (!arrival<kOne>(node, place, waits, other)) return false;
    t = std::max(t, other);
  }
  return true;
}

/// When the message starts over the hop from the node, or to the next rank of it.
template <bool kOne>
bool ChainEvaluator::start(int64_t index, const Diagonal& d, uint32_t node, uint32_t place,
                           Time& t) {
  const uint32_t rank = node * gpus<kOne>() + place;
  const int64_t m = index + shift_ * rank;
  t = time_at(d, done_slot_of<kOne>(place), node) + base_[node];
  Time other;
  Duration time;
  if (m >= 1) {
    if (!start_at<kOne>(node, place, m - 1, other, time)) return false;
    t = std::max(t, other + time);
  }
  if (place + 1 < gpus<kOne>()) return true;
  if (m < window_) {
    if (!entered(rank + 1)) return wait(Need::Kind::kEntry, rank + 1);
    other = entries_[rank + 1];
  } else if (!received<kOne>(d, node + 1, 0, m - window_, other)) {
    return false;
  }
  t = std::max(t, other + credit_latency(node));
  return true;
}

/// Up to which node the recurrence is the same as in this one and all that it takes is known.
template <bool kOne>
inline uint32_t ChainEvaluator::alike_until(int64_t index, const Diagonal& d, uint32_t node) {
  const int64_t g = gpus<kOne>(), each = shift_ * g, m = index + each * node;
  // On a pipeline nothing else matters to the messages of the first window but the first one: it
  // has waited for the first credit too.
  const bool first_window = shift_ == 0 && m >= 1 && m < window_;
  const int64_t p = place_in_loop(d, m);
  if (!first_window && (m < window_ || p < window_)) return node;
  int64_t until = std::min<int64_t>(nodes_ - 1, d.end / slots<kOne>());
  if (shift_ > 0) {
    const int64_t room = per_loop_ - p - shift_ * (g - 1);  // up to the next loop
    if (room < each * (until - node)) until = node + (room + each - 1) / each;
  }
  until = std::min<int64_t>(until, diagonal(index - 1).at / slots<kOne>());
  if (first_window) return static_cast<uint32_t>(std::max<int64_t>(until, node));
  const uint32_t back = diagonal(index - window_).at;
  until = std::min<int64_t>(until, back == 0 ? 0 : (back - 1) / slots<kOne>());
  return static_cast<uint32_t>(std::max<int64_t>(until, node));
}

/// All of the first node, of one rank, if it is known; else step() finds out what is missing.
bool ChainEvaluator::first_node(int64_t index, Diagonal& d) {
  if (index < window_ || shift_ == 0) return false;
  const Diagonal& before = diagonal(index - 1);
  const Diagonal& back = diagonal(index - window_);
  const int64_t p = place_in_loop(d, index);
  if (before.at < 2 || back.at < 3 || p < window_ || arrived_ <= index - shift_) return false;
  // Within a loop; base_[0] is 0.
  const Time taken = back.first_start + wire(back, index - window_, 0) + acknowledged_after(0);
  d.first_done =
      std::max({before.first_done, taken, arrivals_[static_cast<size_t>(index - shift_)]});
  const Time credit = time_at(back, 0, 1) + base_[1] + credit_latency(0);
  d.first_start = std::max({d.first_done, before.first_start + wire(before, index - 1, 0), credit});
  rows_.push(d.row, 0, d.first_done);
  rows_.push(d.row, 1, d.first_start);
  d.at = 2;
  return true;
}

/// The same of the last node.
bool ChainEvaluator::last_node(int64_t index, Diagonal& d) {
  const uint32_t node = nodes_ - 1;
  const int64_t m = index + shift_ * int64_t{node};
  if (m < window_ || shift_ == 0 || c_.ends || acked_ <= m - window_) return false;
  const Diagonal& before = diagonal(index - 1);
  if (before.at <= d.at || place_in_loop(d, m) < window_) return false;
  const Time came = time_at(d, 1, node - 1) + base_[node - 1] + wire(d, m - shift_, node - 1) +
                    latency(node - 1) + c_.step;
  const Time taken = acks_[static_cast<size_t>(m - window_)];
  const Time t = std::max({time_at(before, 0, node) + base_[node], came, taken});
  rows_.skip_to(d.row, node);
  rows_.own(d.row, node);
  rows_.push(d.row, 0, t - base_[node]);
  ++d.at;
  return true;
}

template <bool kOne>
void ChainEvaluator::go_on(int64_t index) {
  Diagonal& d = diagonal(index);
  d.later = 0;
  if (kOne && nodes_ > 1 && d.at == 0 && d.end > 1) first_node(index, d);
  uint32_t node = d.at / slots<kOne>(), slot = d.at % slots<kOne>();
  uint32_t ran = 0;  // up to this node
  while (d.at < d.end) {
    if (slot == 0 && node > ran && node + 1 < nodes_) {
      const uint32_t until = alike_until<kOne>(index, d, node);
      if (until > node) {
        if (kOne && even(index, d, node)) node = run_even(index, d, node, until);
        if (node < until) run<kOne>(index, d, node, until);
        node = ran = until;
        d.at = node * slots<kOne>();
        continue;
      }
    }
    if (kOne && node > 0 && node + 1 == nodes_ && last_node(index, d)) return;
    if (!step<kOne>(index, d, node, slot)) {
      if (need_.kind == Need::Kind::kDiagonal && need_.index > index) {
        d.later = static_cast<uint32_t>(need_.index - index);
        d.later_position = need_.position;
      }
      return;
    }
    ++d.at;
    if (++slot == slots<kOne>()) {
      slot = 0;
      ++node;
    }
  }
}

template void ChainEvaluator::go_on<true>(int64_t);
template void ChainEvaluator::go_on<false>(int64_t);
template bool ChainEvaluator::done_at<false>(uint32_t, uint32_t, int64_t, Time&);
template bool ChainEvaluator::arrival<false>(uint32_t, uint32_t, int64_t, Time&);

}  // namespace understudy
