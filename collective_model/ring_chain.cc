#include "collective_model/ring_chain.h"

#include <algorithm>

namespace understudy {
RingChain::RingChain(const RingChainConfig& config)
    : c_(config),
      back_shift_(c_.window + c_.gpus * (c_.window - c_.slices)),
      entries_(ranks()),
      completions_(ranks()),
      arrivals_(c_.messages),
      acks_(c_.messages),
      nodes_(c_.nodes > 1 ? 2 : 1) {
  nodes_.back().first = ranks() - c_.gpus;
  for (Node& node : nodes_) {
    node.done.resize(c_.gpus);
    node.known.resize(c_.gpus);
  }
  if (c_.nodes == 1) return;
  first_hop_.resize(c_.messages);
  last_hop_.resize(c_.messages);
  for (Row* row : {&data_row_, &ack_row_}) {
    row->any.resize(c_.messages);
    for (uint32_t s = 0; c_.slices > 1 && s < c_.slices; ++s) row->by_slice[s].resize(c_.messages);
  }
  const auto feel = [&](uint64_t at, uint32_t rank, bool sends, uint32_t moves) {
    if (at < c_.messages) late_.push_back({static_cast<uint32_t>(at), rank, sends, moves});
  };
  for (uint32_t rank = c_.gpus; rank < ranks(); ++rank) {
    const uint32_t node = rank / c_.gpus;
    const uint64_t away = uint64_t{node - 1} * back_shift_;
    feel(away + felt_by_the_node_before(rank % c_.gpus), rank, false, node - 1);
    if (sends_late(rank)) feel(away + back_shift_, rank, true, node);
  }
  std::stable_sort(late_.begin(), late_.end(),
                   [](const Late& a, const Late& b) { return a.at < b.at; });
  hops_.resize(c_.nodes - 1);
  window_.resize(ranks() + c_.nodes);
  for (uint32_t m = 1; m <= c_.window; ++m) kernel_[m] = kernel_[m - 1] + wire(m - 1);
  period_ = std::max(kernel_[c_.window], round(0));
}

void RingChain::begin() {
  std::fill(entries_.begin(), entries_.end(), Time::never());
  arrived_ = acked_ = first_known_ = last_known_ = 0;
  data_row_.known = ack_row_.known = 0;
  next_late_ = 0;
  completed_ = false;
  for (Node& node : nodes_) {
    std::fill(node.known.begin(), node.known.end(), 0);
    node.last_arrival = Time::never();
  }
}

void RingChain::enter(uint32_t rank, Time entry) { entries_[rank] = entry; }

void RingChain::advance() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Node& node : nodes_) moved |= step_node(node);
    if (c_.nodes == 1) continue;
    while (step_first_hop()) moved = true;
    while (step_last_hop()) moved = true;
  }
  if (!completed_ && finished()) complete();
}

/// The ranks of a node fill what they can; done() of a receive is that of the send that carries it
/// on.
bool RingChain::step_node(Node& node) {
  const bool first = node.first == 0, last = node.first + c_.gpus == ranks();
  const uint32_t w = c_.window, s = c_.slices;
  bool any = false;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t j = 0; j < c_.gpus; ++j) {
      if (!entered(node.first + j)) continue;
      for (; node.known[j] < c_.messages; moved = true) {
        const uint64_t m = node.known[j];
        Time t = m == 0 ? entries_[node.first + j] : done(node, j, m - 1);
        if (m >= s) {
          if (j > 0) {
            if (node.known[j - 1] <= m - s) break;
            t = std::max(t, done(node, j - 1, m - s));
          } else if (first) {
            if (arrived_ <= m - s) break;
            t = std::max(t, arrivals_[m - s]);
          } else {
            if (last_known_ <= m - s) break;
            t = std::max(t, last_hop_[m - s] + ahead(m - s));
          }
        }
        if (m >= w) {
          if (j + 1 < c_.gpus) {
            if (node.known[j + 1] <= m - w + s) break;
            t = std::max(t, done(node, j + 1, m - w + s));
          } else if (last) {
            if (acked_ <= m - w) break;
            t = std::max(t, acks_[m - w]);
          } else {
            if (first_known_ <= m - w) break;
            t = std::max(t, first_hop_[m - w] + wire(m - w) + c_.latency * 2);
          }
        }
        node.done[j][m % kKept] = t;
        ++node.known[j];
      }
    }
    any |= moved;
  }
  return any;
}

Time RingChain::along(const std::vector<Time>& x, uint64_t m) const {
  Time t = m >= 1 ? x[m - 1] + wire(m - 1) : kLongBefore;
  if (m >= c_.window) t = std::max(t, x[m - c_.window] + round(m - c_.window));
  return t;
}

void RingChain::extend(Row& row, Time source) const {
  const uint64_t m = row.known++;
  row.any[m] = std::max(source, along(row.any, m));
  for (uint32_t s = 0; c_.slices > 1 && s < c_.slices; ++s) {
    row.by_slice[s][m] = along(row.by_slice[s], m);
    if (m % c_.slices == s) row.by_slice[s][m] = std::max(row.by_slice[s][m], row.any[m]);
  }
}

Time RingChain::after(const Row& row, int64_t m, int64_t moves, bool go_ahead) const {
  if (m < 0) return kLongBefore;
  const auto at = static_cast<uint64_t>(m);
  const auto move = [&](uint32_t s) { return go_ahead ? ahead(s) : back(s); };
  if (c_.slices == 1) return row.any[at] + move(0) * moves;
  return std::max(row.by_slice[0][at] + move(0) * moves, row.by_slice[1][at] + move(1) * moves);
}

/// What the first node's hop takes with the next message: its own data, those ahead that lack
/// credits because they entered late, and the real rank that does not acknowledge.
bool RingChain::step_first_hop() {
  const uint64_t m = first_known_;
  if (m == c_.messages || nodes_[0].known.back() <= m) return false;
  size_t late = next_late_;
  Time t = std::max(done(nodes_[0], c_.gpus - 1, m), along(first_hop_, m));
  for (; late < late_.size() && late_[late].at == m; ++late) {
    const Late& l = late_[late];
    if (!entered(l.rank)) return false;
    const Duration credit = l.sends ? Duration() : c_.latency;
    t = std::max(t, entries_[l.rank] + credit + back(0) * l.moves);
  }
  const int64_t acks = static_cast<int64_t>(m) - int64_t{c_.nodes - 2} * back_shift_;
  if (acks >= 0) {
    while (ack_row_.known <= static_cast<uint64_t>(acks)) {
      if (ack_row_.known < back_shift_) {
        extend(ack_row_, kLongBefore);
        continue;
      }
      const uint64_t k = ack_row_.known - back_shift_;
      if (acked_ <= k) return false;
      extend(ack_row_, acks_[k] + c_.latency);
    }
    t = std::max(t, after(ack_row_, acks, c_.nodes - 2, false));
  }
  next_late_ = late;
  first_hop_[first_known_++] = t;
  return true;
}

/// The entry as it shows in the start of the rank's first message.
Time RingChain::entry_of(uint32_t rank) const {
  if (!last_of_node(rank)) return entries_[rank];
  return std::max(entries_[rank], entries_[rank + 1] + c_.latency);
}

/// What the last hop between emulated nodes takes with the next message.
bool RingChain::step_last_hop() {
  const uint64_t m = last_known_;
  if (m == c_.messages) return false;
  const uint32_t hop = ranks() - c_.gpus - 1;  // the rank that sends
  const uint32_t s = c_.slices, shift = s * c_.gpus, node = c_.nodes - 2;
  Time t = along(last_hop_, m);
  if (m % s == 0 && m / s <= hop) {
    const auto rank = static_cast<uint32_t>(hop - m / s);
    if (!entered(rank) || (last_of_node(rank) && !entered(rank + 1))) return false;
    t = std::max(t, entry_of(rank) + ahead(0) * (node - rank / c_.gpus));
  }
  if (m >= c_.window) {
    const Node& next = nodes_.back();
    if (next.known[0] <= m - c_.window + s) return false;
    t = std::max(t, done(next, 0, m - c_.window + s) + c_.latency);
  }
  const int64_t data = static_cast<int64_t>(m) - int64_t{node} * shift;
  while (data >= 0 && data_row_.known <= static_cast<uint64_t>(data)) {
    if (data_row_.known < shift) {
      extend(data_row_, kLongBefore);
      continue;
    }
    const uint64_t k = data_row_.known - shift;
    if (arrived_ <= k) return false;
    extend(data_row_, arrivals_[k]);
  }
  last_hop_[last_known_++] = std::max(t, after(data_row_, data, node, true));
  return true;
}

uint64_t RingChain::credits_known() const {
  if (!entered(0)) return 0;
  const uint64_t done = nodes_[0].known[0];
  const uint64_t used = done > c_.slices ? done - c_.slices : 0;
  return std::min<uint64_t>(used + c_.window, c_.messages);
}

Time RingChain::credit(uint64_t m) const {
  return m < c_.window ? entries_[0] : done(nodes_[0], 0, m - c_.window + c_.slices);
}

bool RingChain::finished() const {
  if (arrived_ < c_.messages) return false;
  for (const Node& node : nodes_) {
    for (const uint64_t known : node.known) {
      if (known < c_.messages) return false;
    }
  }
  return c_.nodes == 1 || last_known_ == c_.messages;
}

Time RingChain::completion(uint32_t rank) const {
  const uint64_t m = c_.messages - 1;
  for (const Node& node : nodes_) {
    if (rank < node.first || rank >= node.first + c_.gpus) continue;
    const uint32_t j = rank - node.first;
    if (node.known[j] <= m) return Time::never();
    Time arrival;
    if (j > 0) {
      if (node.known[j - 1] <= m) return Time::never();
      arrival = done(node, j - 1, m);
    } else if (node.first == 0) {
      if (arrived_ <= m) return Time::never();
      arrival = arrivals_[m];
    } else {
      if (last_known_ <= m) return Time::never();
      arrival = last_hop_[m] + ahead(m);
    }
    return std::max(arrival, done(node, j, m));
  }
  return completed_ ? completions_[rank] : Time::never();
}

}  // namespace understudy
