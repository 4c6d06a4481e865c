// Many nodes of a diagonal at a time, where nodes are of one rank and hops of one kind: what run()
// does, with less to look at.
#include <algorithm>

#include "collective_model/plan/chain_evaluator.h"

namespace understudy {
namespace {

/// Goes along lines that nobody shares.
class LineReader {
 public:
  LineReader(const PieceStore& store, const NodeTimes& times, uint32_t node)
      : place_(times.piece(store, node)), last_(times.last_piece()) {}
  /// Gives up to which node, `until` at most, the times at a node are on one line.
  uint32_t read(const PieceStore& store, uint32_t node, uint32_t until) {
    while (place_ != last_ && store[place_ + 1].begin <= node) ++place_;
    const LinePiece& piece = store[place_];
    now = piece.at(node);
    slope = piece.slope;
    return place_ == last_ ? until : std::min(until, store[place_ + 1].begin);
  }

  Time now;
  Duration slope;

 private:
  uint32_t place_, last_;
};

}  // namespace

/// The first nodes of `node` .. `end` - 1, as long as each stretch of them is one node, or on one
/// line: of what comes, or of the message before. Gives the node behind them; run() has the terms.
uint32_t ChainEvaluator::run_even(int64_t index, Diagonal& d, uint32_t node, uint32_t end) {
  const int64_t m = index + shift_ * int64_t{node};
  const Diagonal& previous = diagonal(index - 1);
  const Diagonal& back = diagonal(index - window_);
  // All of a loop's messages that it goes through on a diagonal are as long.
  const Duration ahead = times_[size(d, m)];
  const Duration before_time = times_[size(previous, m - 1)];
  const Duration acknowledged_time = times_[size(back, m - window_)] + acknowledged_after(node);
  const Duration credit_time = c_.step + credited_after(node);
  PieceStore& store = rows_.pieces();
  const auto reader = [&](const Diagonal& of, uint32_t slot, uint32_t at) {
    return LineReader(store, rows_.lines(of.row.sheet, slot), at);
  };
  LineReader own = reader(previous, 0, node), before = reader(previous, 1, node);
  LineReader acknowledged = reader(back, 1, node), credit = reader(back, 0, node + 1);
  NodeTimes& done = rows_.lines(d.row.sheet, 0);
  NodeTimes& started = rows_.lines(d.row.sheet, 1);
  Time last = started.at(store, node - 1);
  for (uint32_t stretches = 0; node < end && stretches < kCompared; ++stretches) {
    uint32_t until = own.read(store, node, end);
    until = before.read(store, node, until);
    until = acknowledged.read(store, node, until);
    until = credit.read(store, node + 1, until + 1) - 1;
    const uint32_t count = until - node;
    const Time sent = before.now + before_time, taken = acknowledged.now + acknowledged_time;
    const Time filled = std::max({last + ahead, own.now, taken});
    const Time level = std::max({filled, sent, credit.now + credit_time});
    last = level;
    if (count == 1) {
      done.push(store, filled);
      started.push(store, level);
      node = until;
      continue;
    }
    const Time next = level + ahead;  // of the second node's
    Duration slope = ahead;
    const Duration steepest = std::max({own.slope, before.slope, acknowledged.slope, credit.slope});
    if (steepest > ahead) {
      if (before.slope != steepest || sent != level) return node;
      if (own.now + own.slope > next || taken + acknowledged.slope > next) return node;
      slope = steepest;
    }
    started.push(store, count, level, slope);
    if (filled + slope == next) {
      done.push(store, count, filled, slope);
    } else {
      done.push(store, filled);
      done.push(store, count - 1, next, slope);
    }
    last += slope * (count - 1);
    node = until;
  }
  return node;
}

}  // namespace understudy
