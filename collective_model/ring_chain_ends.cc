// When the ranks between the first and the last node of a chain have done their parts.
#include <algorithm>

#include "collective_model/ring_chain.h"

namespace understudy {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace

/// The longest way along m from a first message.
Duration RingChain::from_entry(int64_t m) const {
  const int64_t periods = floor_div(m, c_.window);
  return period_ * periods + kernel_[static_cast<size_t>(m - periods * c_.window)];
}

/// Start of message `m` over the hop from each node. Entries act over a range of ranks: the best
/// of them that are in range, those of one remainder by the window at a time, as their ways along m
/// then differ by whole periods.
void RingChain::all_hops(uint64_t m) {
  const auto message = static_cast<int64_t>(m);
  const int64_t w = c_.window, s = c_.slices, g = c_.gpus;
  const auto n = static_cast<int64_t>(hops_.size());
  for (int64_t v = 0; v < n; ++v) {
    hops_[static_cast<size_t>(v)] =
        std::max(after(data_row_, message - v * g * s, v, true),
                 after(ack_row_, message - (n - 1 - v) * back_shift_, n - 1 - v, false));
  }
  for (int64_t rest = 0; rest < w; rest += s) {
    size_t head = 0, tail = 0;
    const auto add = [&](int64_t place, Time value) {
      while (tail > head && window_[tail - 1].value <= value) --tail;
      window_[tail++] = {place, value};
    };
    // Ahead: ranks up to the hop's.
    for (int64_t v = 0; v < n; ++v) {
      const int64_t hop = (v + 1) * g - 1, base = message - s * hop;
      for (int64_t rank = v * g; rank <= hop; ++rank) {
        const int64_t place = s * rank;
        if (place % w != rest) continue;
        add(place, entry_of(static_cast<uint32_t>(rank)) - ahead(0) * v + period_ * (place / w));
      }
      while (head < tail && window_[head].place < -base) ++head;
      if (head == tail) continue;
      Time& hop_start = hops_[static_cast<size_t>(v)];
      hop_start = std::max(hop_start, window_[head].value + ahead(0) * v + from_entry(base + rest));
    }
    // Back: ranks behind it.
    head = tail = 0;
    for (int64_t v = n - 1; v >= 0; --v) {
      for (int64_t j = g - 1; j >= 0; --j) {
        const auto rank = static_cast<uint32_t>((v + 1) * g + j);
        const auto feel = [&](int64_t place, Time value) {
          if (place % w == rest) add(place, value - period_ * (place / w));
        };
        const int64_t away = (v + 1) * back_shift_;
        if (sends_late(rank)) feel(away + back_shift_, entries_[rank] + back(0) * (v + 2));
        feel(away + felt_by_the_node_before(static_cast<uint32_t>(j)),
             entries_[rank] + c_.latency + back(0) * (v + 1));
      }
      const int64_t base = message + (v + 1) * back_shift_;
      while (head < tail && window_[head].place > base) ++head;
      if (head == tail) continue;
      Time& hop_start = hops_[static_cast<size_t>(v)];
      hop_start =
          std::max(hop_start, window_[head].value - back(0) * (v + 1) + from_entry(base - rest));
    }
  }
}

/// Completions of the ranks between the first and the last node.
void RingChain::complete() {
  completed_ = true;
  if (c_.nodes < 3) return;
  const uint32_t g = c_.gpus, w = c_.window, s = c_.slices;
  const uint64_t end = c_.messages - 1;
  while (data_row_.known < c_.messages) {
    const uint64_t k = data_row_.known;
    extend(data_row_, k < uint64_t{s} * g ? kLongBefore : arrivals_[k - uint64_t{s} * g]);
  }
  while (ack_row_.known < c_.messages) {
    const uint64_t k = ack_row_.known;
    extend(ack_row_, k < back_shift_ ? kLongBefore : acks_[k - back_shift_] + c_.latency);
  }
  // done() of a rank's last message into completions_, then the arrival of the last one.
  for (uint32_t r = g; r + g < ranks(); ++r) {
    const uint32_t first = r - r % g;
    completions_[r] = kLongBefore;
    for (uint32_t i = first; i < first + g; ++i) {
      const uint64_t way = i <= r ? uint64_t{r - i} * s : uint64_t{i - r} * (w - s) + s;
      if (way <= end) completions_[r] = std::max(completions_[r], entries_[i]);
    }
  }
  for (uint32_t j = 0; j < g; ++j) {
    const uint64_t ahead_by = uint64_t{s} * (j + 1), back_by = w + uint64_t{g - 1 - j} * (w - s);
    for (const bool data : {true, false}) {
      if ((data ? ahead_by : back_by) > end) continue;
      const uint64_t m = end - (data ? ahead_by : back_by);
      all_hops(m);
      for (uint32_t v = 1; v + 1 < c_.nodes; ++v) {
        Time& completion = completions_[size_t{v} * g + j];
        completion = std::max(completion,
                              data ? hops_[v - 1] + ahead(m) : hops_[v] + wire(m) + c_.latency * 2);
      }
    }
  }
  all_hops(end);
  for (uint32_t v = c_.nodes - 2; v >= 1; --v) {
    const size_t first = size_t{v} * g;
    for (size_t r = first + g - 1; r > first; --r) {
      completions_[r] = std::max(completions_[r], completions_[r - 1]);
    }
    completions_[first] = std::max(completions_[first], hops_[v - 1] + ahead(end));
  }
}

}  // namespace understudy
