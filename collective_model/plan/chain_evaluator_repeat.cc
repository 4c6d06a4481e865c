// What of a diagonal is as in the one a window before it, but later.
//
// The recurrence takes maxima of sums, so that whatever goes in later comes out as much later. Into
// a node goes what the diagonals one and a window before have there, in the next node too, and what
// this diagonal has in the node before. If each is later than what it was a window before, by the
// same, all that comes out is: no matter which hops and entries have made it what it is. So links
// of one kind that are the slowest, however they lie in the ring, cost no more than one.
#include <algorithm>

#include "collective_model/plan/chain_evaluator.h"

namespace understudy {

/// From which node on the recurrence of a stretch, which begins with this one, was the same a
/// window before.
uint32_t ChainEvaluator::may_repeat_from(int64_t index, const Diagonal& d, uint32_t node) {
  const int64_t m = index + shift_ * int64_t{node} * gpus_;
  const int64_t missing = 2 * window_ - place_in_loop(d, m);
  if (m < window_ || (missing > 0 && shift_ == 0)) return ~0u;
  const Diagonal& back = diagonal(index - window_);
  if (!back.row.related || size(d, m) != size(back, m - window_)) return ~0u;
  if (missing <= 0) return node;
  const int64_t each = shift_ * gpus_;
  return node + static_cast<uint32_t>((missing + each - 1) / each);
}

/// Up to which complete node a diagonal is known to be `rise` later than the one a window before.
uint32_t ChainEvaluator::rises_until(const Diagonal& d, uint32_t node, Duration rise) const {
  uint32_t place = rows_.part_at(d.row, node);
  while (rows_.part(place).rise == rise) {
    node = rows_.part_end(d.row, place, d.at / slots_);
    if (place++ == d.row.parts.last()) break;
  }
  return node;
}

/// Up to which node the diagonal is `rise` later than the one a window before, if it is `last` in
/// the node before.
uint32_t ChainEvaluator::repeats_until(int64_t index, uint32_t node, uint32_t end, Time last,
                                       Duration& rise) {
  const Diagonal& before = diagonal(index - 1);
  const Diagonal& back = diagonal(index - window_);
  rise = rows_.part(rows_.part_at(back.row, node)).rise;
  if (rise == RowTimes::kNoRise) return node;
  if (rows_.part(rows_.part_at(before.row, node)).rise != rise) return node;
  if (last != time_at(back, start_slot(gpus_ - 1), node - 1) + rise) return node;
  const uint32_t until =
      std::min(rises_until(before, node, rise), rises_until(back, node, rise) - 1);
  return std::clamp(until, node, end);
}

/// Whether a part of a diagonal should be shared from a node on, when as many nodes before it have
/// been worked out. Where diagonals begin at other nodes than those before them parts get more and
/// more, unless such as are of a length are put together.
bool ChainEvaluator::worth_sharing(const Diagonal& d, uint32_t part, uint32_t own, uint32_t node,
                                   uint32_t end) const {
  const uint32_t next = std::min(end, rows_.part_end(d.row, part, end)), length = next - node;
  if (length < std::max(kShared, 2 * own)) return false;
  if (next == end) return true;
  const uint32_t other = std::min(end, rows_.part_end(d.row, part + 1, end)) - next;
  return length >= 2 * other || other >= 2 * length;
}

/// Adds nodes that have been worked out to a diagonal: with what they are later than a window
/// before, if that is known or worth the comparison.
void ChainEvaluator::add_own(int64_t index, Diagonal& d, uint32_t node, uint32_t end,
                             bool compare) {
  const int64_t m = index + shift_ * int64_t{node} * gpus_;
  if (!compare || m < window_ || d.row.parts.count() > kMostParts) return rows_.own(d.row, node);
  const Diagonal& back = diagonal(index - window_);
  if (size(d, m) != size(back, m - window_)) return rows_.own(d.row, node);
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    rows_.read(compared_[slot], rows_.lines(d.row.sheet, slot), node, end);
    rows_.read(compared_[slots_ + slot], back.row, slot, node, 0, end);
  }
  const uint32_t first = node;
  uint32_t from = node, lines = 0;  // of those that are as much later
  Duration rise = RowTimes::kNoRise;
  const auto add = [&](uint32_t until) {
    // Long lines are as soon worked out again.
    const bool keep = (from == first || until == end || until - from >= kShared) &&
                      until - from <= lines * kWorth;
    if (from < until) rows_.own(d.row, from, keep ? rise : RowTimes::kNoRise);
  };
  while (node < end) {
    uint32_t until = end;
    for (Cursor& c : compared_) until = std::min(until, rows_.until(c, node));
    Duration more = compared_[0].now - compared_[slots_].now;
    bool parallel = true;
    for (uint32_t slot = 0; slot < slots_; ++slot) {
      const Cursor& now = compared_[slot];
      const Cursor& old = compared_[slots_ + slot];
      if (now.now - old.now != more) more = RowTimes::kNoRise;
      parallel &= now.slope == old.slope;
    }
    if (!parallel && more != RowTimes::kNoRise) until = node + 1;
    if (more != rise) {
      add(node);
      from = node;
      rise = more;
      lines = 0;
    }
    ++lines;
    node = until;
  }
  add(end);
}

}  // namespace understudy
