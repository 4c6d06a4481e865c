// Many nodes of a diagonal at a time.
#include <algorithm>

#include "collective_model/folded_chain.h"

namespace understudy {
namespace {

/// Nodes `first` .. `count` - 1 of the largest of some lines, each by its value in node 0.
template <typename Lines>
void push_largest(PieceStore& store, NodeTimes& out, const Lines& lines, int64_t first,
                  int64_t count) {
  while (first < count) {
    // The largest at `first`; of several the steepest.
    const auto* best = &lines.front();
    for (const auto& line : lines) {
      const Time a = line.first + line.slope * first, b = best->first + best->slope * first;
      if (a > b || (a == b && line.slope > best->slope)) best = &line;
    }
    int64_t until = count;
    for (const auto& line : lines) {
      if (line.slope <= best->slope) continue;
      const int64_t behind = (best->first - line.first).ps();
      const int64_t gains = (line.slope - best->slope).ps();
      until = std::min(until, behind / gains + 1);
    }
    out.push(store, static_cast<uint32_t>(until - first), best->first + best->slope * first,
             best->slope);
    first = until;
  }
}

}  // namespace

/// Up to which node the recurrence is the same as in this one and all that it takes is known.
uint32_t FoldedChain::alike_until(int64_t index, const Diagonal& d, uint32_t node) {
  const int64_t g = gpus_, each = shift_ * g, m = index + each * node;
  // On a pipeline nothing else matters to the messages of the first window but the first one: it
  // has waited for the first credit too.
  const bool first_window = shift_ == 0 && m >= 1 && m < window_;
  const int64_t p = place_in_loop(d, m);
  if (!first_window && (m < window_ || p < window_)) return node;
  int64_t until = std::min<int64_t>(nodes_ - 1, d.end / (gpus_ + 1));
  if (shift_ > 0) {
    const int64_t room = per_loop_ - p - shift_ * (g - 1);  // up to the next loop
    until = std::min(until, node + (room + each - 1) / each);
  }
  until = std::min<int64_t>(until, diagonal(index - 1).at / (gpus_ + 1));
  if (first_window) return static_cast<uint32_t>(std::max<int64_t>(until, node));
  const uint32_t back = diagonal(index - window_).at;
  until = std::min<int64_t>(until, back == 0 ? 0 : (back - 1) / (gpus_ + 1));
  return static_cast<uint32_t>(std::max<int64_t>(until, node));
}

uint32_t FoldedChain::Cursor::until(const PieceStore& store, uint32_t node) {
  node += ahead;
  while (piece != last && store[piece + 1].begin <= node) ++piece;
  now = store[piece].at(node);
  slope = store[piece].slope;
  return (piece == last ? end : store[piece + 1].begin) - ahead;
}

/// Nodes `node` .. `end` - 1, which are alike: with X the start over the hop, C what a message
/// takes from one hop to the next, rank j of the node is done at D(j, v) = max(X(v-1) + C, its own
/// earlier messages and their acknowledgements, and those of the ranks before it), and X(v) is the
/// largest of these, the message before on the hop, and the credit. Where all of these are straight
/// lines, X is a line of slope C from the largest of all on, but for those that are steeper.
void FoldedChain::run(int64_t index, const Diagonal& d, uint32_t node, uint32_t end) {
  const int64_t m = index + shift_ * int64_t{node * gpus_ + gpus_ - 1};
  const Diagonal& before = diagonal(index - 1);
  const bool first_window = m < window_;
  const Diagonal& back = first_window ? d : diagonal(index - window_);
  const auto read = [&](Cursor& c, const NodeTimes& times, uint32_t ahead) {
    c.piece = times.piece(store_, node + ahead);
    c.last = times.last_piece();
    c.end = times.end();
    c.ahead = ahead;
  };
  for (uint32_t j = 0; j < gpus_; ++j) {
    read(cursors_[size_t{2} * j], done(index - 1, j), 0);
    // The last one's is the hop's.
    read(cursors_[size_t{2} * j + 1], first_window ? never_ : done(index - window_, j + 1), 0);
  }
  Cursor& acknowledged = cursors_[size_t{2} * gpus_ - 1];
  Cursor& serial = cursors_[size_t{2} * gpus_];
  Cursor& credit = cursors_[size_t{2} * gpus_ + 1];
  read(serial, starts(index - 1), 0);
  read(credit, first_window ? never_ : done(index - window_, 0), 1);

  // All relative to base_.
  NodeTimes& started = starts(index);
  Time last = started.at(store_, node - 1);
  while (node < end) {
    uint32_t until = end;
    for (Cursor& c : cursors_) until = std::min(until, c.until(store_, node));
    const Time came = last + wire(d, m - shift_, node - 1);
    const Duration ahead = wire(d, m, node);
    serial.now += wire(before, m - 1, node);
    acknowledged.now += wire(back, m - window_, node);
    credit.now += c_.step;
    if (one_rate_) {
      // If what comes is latest even where the hop is the longest, their kinds make no difference.
      const Duration most = longest_ * 2;
      const auto later = [&](const Cursor& c, Duration more) {
        return c.now + more > came || c.slope > ahead;
      };
      bool any = false;
      for (const Cursor& c : cursors_) {
        any |= later(c, &c == &acknowledged || &c == &credit ? most : Duration());
      }
      if (!any) {
        const uint32_t count = until - node;
        for (uint32_t j = 0; j <= gpus_; ++j) done(index, j).push(store_, count, came, ahead);
        last = came + ahead * (count - 1);
        node = until;
        continue;
      }
    }
    // Hops of one kind; the first of them behind another kind alone.
    until = std::min(until, kind_[node - 1] == kind_[node] ? run_end_[node] : node + 1);
    const int64_t count = until - node;
    acknowledged.now += latency(node) * 2;
    credit.now += latency(node) * 2;

    Time level = came;  // of the line of slope C in the first node
    steep_.clear();
    for (const Cursor& c : cursors_) {
      level = std::max(level, c.now);
      if (c.slope > ahead) steep_.push_back({c.now, c.slope});
    }
    Time filled = came;
    lines_.clear();
    lines_.push_back({level, ahead});
    for (const Line& line : steep_) lines_.push_back({line.first - line.slope + ahead, line.slope});
    for (uint32_t j = 0; j < gpus_; ++j) {
      NodeTimes& filled_by_rank = done(index, j);
      for (const size_t i : {size_t{2} * j, size_t{2} * j + 1}) {
        filled = std::max(filled, cursors_[i].now);
        if (cursors_[i].slope > ahead) lines_.push_back({cursors_[i].now, cursors_[i].slope});
      }
      filled_by_rank.push(store_, filled);
      if (count == 1) continue;
      if (lines_.size() == 1) {
        filled_by_rank.push(store_, static_cast<uint32_t>(count - 1), level + ahead, ahead);
      } else {
        push_largest(store_, filled_by_rank, lines_, 1, count);
      }
    }
    if (steep_.empty()) {
      started.push(store_, static_cast<uint32_t>(count), level, ahead);
      last = level + ahead * (count - 1);
    } else {
      lines_.resize(1);
      for (const Line& line : steep_) lines_.push_back(line);
      push_largest(store_, started, lines_, 0, count);
      last = started.at(store_, until - 1);
    }
    node = until;
  }
}

}  // namespace understudy
