// Many nodes of a diagonal at a time.
#include <algorithm>
#include <span>

#include "collective_model/plan/chain_evaluator.h"

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

/// Nodes `node` .. `end` - 1, which are alike. A rank of a node is done when what it passes on has
/// come and its own earlier messages have been acknowledged; its message starts behind the one
/// before, over the hop with a credit. All moments in a node are taken as that of the start over
/// its hop, X, would follow if nothing else was late. Then, with C what a message takes from one
/// hop to the next, each of them is the largest of X(v-1) + C and of what is known of its own and
/// of those before it in the node, and X(v) the largest of all. Where these are straight lines, X
/// is a line of slope C from the largest of all on, but for those that are steeper.
///
/// Where all that goes in is as in the row a window before, but later, what comes out is too: it
/// is shared (row_times.h).
template <bool kOne>
void ChainEvaluator::run(int64_t index, Diagonal& d, uint32_t node, uint32_t end) {
  const uint32_t gpus = this->gpus<kOne>(), hop = gpus - 1;  // the place that sends over it
  const int64_t m = index + shift_ * int64_t{node * gpus + hop};
  const Diagonal& before = diagonal(index - 1);
  const bool first_window = m < window_;
  const Diagonal& back = first_window ? d : diagonal(index - window_);
  const std::span<Cursor> cursors(cursors_.data(), size_t{3} * gpus + 1);
  const auto own = [&](uint32_t j, uint32_t which) -> Cursor& {
    return cursors[size_t{3} * j + which];
  };
  Cursor& acknowledged = own(hop, 1);
  Cursor& credit = cursors[size_t{3} * gpus];
  const auto inner = [&](const Diagonal& of, int64_t later, uint32_t j) {
    return c_.inside ? inner_time(of, m - shift_ * (hop - j) - later, node * gpus + j) : Duration();
  };
  const Duration inner_latency = !kOne && c_.inside ? c_.inside->latency : Duration();
  to_hop_[hop] = {};
  for (uint32_t j = hop; j-- > 0;) to_hop_[j] = to_hop_[j + 1] + inner(d, 0, j) + inner_latency;

  // All relative to base_.
  PieceStore& store = rows_.pieces();
  const auto lines = [&](uint32_t slot) -> NodeTimes& { return rows_.lines(d.row.sheet, slot); };
  const uint32_t starts = done_slot_of<kOne>(hop) + 1;
  NodeTimes& started = lines(starts);
  Time last = time_at(d, starts, node - 1);
  const uint32_t repeats_from = before.row.related ? may_repeat_from(index, d, node) : ~0u;
  uint32_t own_from = node, stretches = 0;  // not in a part yet
  uint32_t same = 0;                        // up to where it repeats, `rise` later
  Duration rise;
  while (node < end) {
    uint32_t until = end;
    if (node >= std::max(repeats_from, same)) same = repeats_until(index, node, end, last, rise);
    if (node < same) {
      const uint32_t place = rows_.part_at(back.row, node);
      until = std::min(same, rows_.part_end(back.row, place, same));
      if (worth_sharing(back, place, node - own_from, node, same)) {
        if (own_from < node) add_own(index, d, own_from, node, true);
        rows_.share(d.row, node, rows_.part(place), rise);
        node = own_from = until;
        stretches = 0;
        last = time_at(d, starts, node - 1);
        continue;
      }
    }
    if (stretches++ == 0) {
      rows_.skip_to(d.row, node);
      read_all<kOne>(index, d, node);
    }
    for (Cursor& c : cursors) until = std::min(until, rows_.until(c, node));
    const Time came = last + wire(d, m - shift_, node - 1) + to_hop_[0];
    const Duration ahead = wire(d, m, node) + to_hop_[0];
    for (uint32_t j = 0; j < gpus; ++j) {
      own(j, 0).now += to_hop_[j];
      own(j, 1).now += j < hop ? to_hop_[j] + inner_latency : wire(back, m - window_, node);
      own(j, 2).now += j < hop ? to_hop_[j] + inner(before, 1, j) : wire(before, m - 1, node);
    }
    credit.now += c_.step;
    if (one_rate_) {
      // If what comes is latest even where the hop is the longest, their kinds make no difference.
      const Duration most = longest_;
      bool any = false;
      for (const Cursor& c : cursors) {
        const Duration more = &c == &acknowledged || &c == &credit ? most : Duration();
        any |= c.now + more > came || c.slope > ahead;
      }
      if (!any) {
        const uint32_t count = until - node;
        for (uint32_t j = 0; j < gpus; ++j) {
          lines(done_slot_of<kOne>(j)).push(store, count, came - to_hop_[j], ahead);
          if (j == hop || c_.inside) {
            lines(done_slot_of<kOne>(j) + 1).push(store, count, came - to_hop_[j], ahead);
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
    acknowledged.now += acknowledged_after(node);
    credit.now += credited_after(node);

    Time level = came;  // of the line of slope C in the first node
    steep_.clear();
    for (const Cursor& c : cursors) {
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
      out.push(store, largest - less);
      if (count == 1) return;
      if (lines_.size() == 1) {
        out.push(store, static_cast<uint32_t>(count - 1), level + ahead - less, ahead);
      } else {
        push_largest(store, out, lines_, 1, count, less);
      }
    };
    for (uint32_t j = 0; j < gpus; ++j) {
      add(own(j, 0));
      add(own(j, 1));
      push(lines(done_slot(j)), to_hop_[j]);
      if (j == hop || !c_.inside) continue;
      add(own(j, 2));
      push(lines(start_slot(j)), to_hop_[j]);
    }
    if (steep_.empty()) {
      started.push(store, static_cast<uint32_t>(count), level, ahead);
      last = level + ahead * (count - 1);
    } else {
      lines_.resize(1);
      for (const Line& line : steep_) lines_.push_back(line);
      push_largest(store, started, lines_, 0, count, Duration());
      last = started.at(store, until - 1);
    }
    node = until;
  }
  if (own_from < end) {
    add_own(index, d, own_from, end, before.row.related || stretches >= kCompared);
  }
}

/// Of each rank: its message before, the acknowledgement, the start before; then the credit.
template <bool kOne>
void ChainEvaluator::read_all(int64_t index, const Diagonal& d, uint32_t node) {
  const uint32_t gpus = this->gpus<kOne>(), hop = gpus - 1;
  const Diagonal& before = diagonal(index - 1);
  const bool first_window = index + shift_ * int64_t{node * gpus + hop} < window_;
  const Diagonal& back = first_window ? d : diagonal(index - window_);
  const auto read = [&](Cursor& c, const Diagonal& of, uint32_t slot, uint32_t ahead) {
    const uint32_t slots = this->slots<kOne>();
    const uint32_t end = of.at / slots + (slot < of.at % slots ? 1 : 0);
    rows_.read(c, of.row, slot, node, ahead, end);
  };
  const auto never = [&](Cursor& c) { rows_.read(c, never_, node, nodes_ + 1); };
  for (uint32_t j = 0; j < gpus; ++j) {
    Cursor* own = &cursors_[size_t{3} * j];
    read(own[0], before, done_slot_of<kOne>(j), 0);
    if (first_window) {
      never(own[1]);
    } else {
      read(own[1], back, j < hop ? done_slot_of<kOne>(j + 1) : done_slot_of<kOne>(j) + 1, 0);
    }
    if (j == hop || c_.inside) {
      read(own[2], before, done_slot_of<kOne>(j) + 1, 0);
    } else {
      never(own[2]);
    }
  }
  if (first_window) return never(cursors_[size_t{3} * gpus]);
  read(cursors_[size_t{3} * gpus], back, 0, 1);
}

template void ChainEvaluator::run<true>(int64_t, Diagonal&, uint32_t, uint32_t);
template void ChainEvaluator::run<false>(int64_t, Diagonal&, uint32_t, uint32_t);

}  // namespace understudy
