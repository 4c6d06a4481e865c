// Many nodes of a diagonal at a time.
#include <algorithm>

#include "collective_model/folded_chain.h"

namespace understudy {
namespace {

/// Nodes `first` .. `count` - 1 of the largest of some lines, each by its value in node 0, `less`
/// subtracted.
template <typename Lines>
void push_largest(PieceStore& store, NodeTimes& out, const Lines& lines, int64_t first,
                  int64_t count, Duration less) {
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
    out.push(store, static_cast<uint32_t>(until - first), best->first + best->slope * first - less,
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
  int64_t until = std::min<int64_t>(nodes_ - 1, d.end / slots_);
  if (shift_ > 0) {
    const int64_t room = per_loop_ - p - shift_ * (g - 1);  // up to the next loop
    until = std::min(until, node + (room + each - 1) / each);
  }
  until = std::min<int64_t>(until, diagonal(index - 1).at / slots_);
  if (first_window) return static_cast<uint32_t>(std::max<int64_t>(until, node));
  const uint32_t back = diagonal(index - window_).at;
  until = std::min<int64_t>(until, back == 0 ? 0 : (back - 1) / slots_);
  return static_cast<uint32_t>(std::max<int64_t>(until, node));
}

uint32_t FoldedChain::Cursor::until(const PieceStore& store, uint32_t node) {
  node += ahead;
  while (piece != last && store[piece + 1].begin <= node) ++piece;
  now = store[piece].at(node);
  slope = store[piece].slope;
  return (piece == last ? end : store[piece + 1].begin) - ahead;
}

/// Nodes `node` .. `end` - 1, which are alike. A rank of a node is done when what it passes on has
/// come and its own earlier messages have been acknowledged; its message starts behind the one
/// before, over the hop with a credit. All moments in a node are taken as that of the start over
/// its hop, X, would follow if nothing else was late. Then, with C what a message takes from one
/// hop to the next, each of them is the largest of X(v-1) + C and of what is known of its own and
/// of those before it in the node, and X(v) the largest of all. Where these are straight lines, X
/// is a line of slope C from the largest of all on, but for those that are steeper.
void FoldedChain::run(int64_t index, const Diagonal& d, uint32_t node, uint32_t end) {
  const uint32_t hop = gpus_ - 1;  // the place that sends over it
  const int64_t m = index + shift_ * int64_t{node * gpus_ + hop};
  const Diagonal& before = diagonal(index - 1);
  const bool first_window = m < window_;
  const Diagonal& back = first_window ? d : diagonal(index - window_);
  const auto read = [&](Cursor& c, const NodeTimes& times, uint32_t ahead) {
    c.piece = times.piece(store_, node + ahead);
    c.last = times.last_piece();
    c.end = times.end();
    c.ahead = ahead;
  };
  // Of each rank: its message before, the acknowledgement, the start before; then the credit.
  const auto own = [&](uint32_t j, uint32_t which) -> Cursor& { return cursors_[3 * j + which]; };
  Cursor& acknowledged = own(hop, 1);
  Cursor& credit = cursors_.back();
  for (uint32_t j = 0; j < gpus_; ++j) {
    read(own(j, 0), done(index - 1, j), 0);
    read(own(j, 2), j == hop || c_.inside ? starts(index - 1, j) : never_, 0);
    if (first_window) {
      read(own(j, 1), never_, 0);
    } else {
      read(own(j, 1), j < hop ? done(index - window_, j + 1) : starts(index - window_, j), 0);
    }
  }
  read(credit, first_window ? never_ : done(index - window_, 0), 1);
  const auto inner = [&](const Diagonal& of, int64_t later, uint32_t j) {
    return c_.inside ? inner_time(of, m - shift_ * (hop - j) - later, node * gpus_ + j)
                     : Duration();
  };
  const Duration inner_latency = c_.inside ? c_.inside->latency : Duration();
  to_hop_[hop] = {};
  for (uint32_t j = hop; j-- > 0;) to_hop_[j] = to_hop_[j + 1] + inner(d, 0, j) + inner_latency;

  // All relative to base_.
  NodeTimes& started = starts(index, hop);
  Time last = started.at(store_, node - 1);
  while (node < end) {
    uint32_t until = end;
    for (Cursor& c : cursors_) until = std::min(until, c.until(store_, node));
    const Time came = last + wire(d, m - shift_, node - 1) + to_hop_[0];
    const Duration ahead = wire(d, m, node) + to_hop_[0];
    for (uint32_t j = 0; j < gpus_; ++j) {
      own(j, 0).now += to_hop_[j];
      own(j, 1).now += j < hop ? to_hop_[j] + inner_latency : wire(back, m - window_, node);
      own(j, 2).now += j < hop ? to_hop_[j] + inner(before, 1, j) : wire(before, m - 1, node);
    }
    credit.now += c_.step;
    if (one_rate_) {
      // If what comes is latest even where the hop is the longest, their kinds make no difference.
      const Duration most = longest_ * 2;
      bool any = false;
      for (const Cursor& c : cursors_) {
        const Duration more = &c == &acknowledged || &c == &credit ? most : Duration();
        any |= c.now + more > came || c.slope > ahead;
      }
      if (!any) {
        const uint32_t count = until - node;
        for (uint32_t j = 0; j < gpus_; ++j) {
          done(index, j).push(store_, count, came - to_hop_[j], ahead);
          if (j == hop || c_.inside) {
            starts(index, j).push(store_, count, came - to_hop_[j], ahead);
          }
        }
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
    Time largest = came;  // in the first node, of what has been looked at
    lines_.clear();
    lines_.push_back({level, ahead});
    for (const Line& line : steep_) lines_.push_back({line.first - line.slope + ahead, line.slope});
    const auto add = [&](const Cursor& c) {
      largest = std::max(largest, c.now);
      if (c.slope > ahead) lines_.push_back({c.now, c.slope});
    };
    const auto push = [&](NodeTimes& out, Duration less) {
      out.push(store_, largest - less);
      if (count == 1) return;
      if (lines_.size() == 1) {
        out.push(store_, static_cast<uint32_t>(count - 1), level + ahead - less, ahead);
      } else {
        push_largest(store_, out, lines_, 1, count, less);
      }
    };
    for (uint32_t j = 0; j < gpus_; ++j) {
      add(own(j, 0));
      add(own(j, 1));
      push(done(index, j), to_hop_[j]);
      if (j == hop || !c_.inside) continue;
      add(own(j, 2));
      push(starts(index, j), to_hop_[j]);
    }
    if (steep_.empty()) {
      started.push(store_, static_cast<uint32_t>(count), level, ahead);
      last = level + ahead * (count - 1);
    } else {
      lines_.resize(1);
      for (const Line& line : steep_) lines_.push_back(line);
      push_largest(store_, started, lines_, 0, count, Duration());
      last = started.at(store_, until - 1);
    }
    node = until;
  }
}

}  // namespace understudy
