// A calendar of events in the order of their time, where times are equal of their rank, and of
// their insertion where ranks are: a run in virtual time is repeatable. Hierarchical timing wheels
// (Varghese and Lauck, SOSP 1987): an event costs the same however many there are. Heaps hold
// what is minutes away, and what joins many others that are due.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

/// `kind` and `index` are the owner's.
struct CalendarEvent {
  Time time;
  uint64_t order = 0;
  uint32_t kind = 0;
  uint32_t index = 0;
};

class Calendar {
 public:
  /// Room for as many events before the first allocation, unless they are minutes away.
  void reserve(size_t events) { reserve(events, events); }
  /// The same if no more than `at_once` are due together.
  void reserve(size_t events, size_t at_once) {
    nodes_.reserve(events);
    current_.reserve(at_once);
    late_.reserve(at_once);
  }

  /// `time` may have passed: then the event comes next, behind others that are due.
  void push(Time time, uint32_t kind, uint32_t index, uint32_t rank = 0) {
    ++size_;
    next_ = std::min(next_, time);
    place({time, uint64_t{rank} << kRankShift | order_++, kind, index});
  }
  static constexpr uint32_t kMostRank = (1u << 24) - 1;

  /// The number of an insertion, for an event that its owner keeps elsewhere.
  uint64_t take_order() { return order_++; }
  /// The next event; there must be one.
  const CalendarEvent& front() {
    if (current_.empty()) refill();
    return late_.empty() ? current_.back() : first_of_both();
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  /// Of the next event, never() without one.
  Time next() {
    if (!next_known_) learn_next();
    return next_;
  }
  /// The one `ahead` events behind the next, as far as it is known yet; else null.
  const CalendarEvent* peek(size_t ahead) const {
    return ahead < current_.size() ? &current_[current_.size() - 1 - ahead] : nullptr;
  }
  /// There must be one.
  CalendarEvent pop() {
    const CalendarEvent e = front();
    if (late_.empty()) {
      current_.pop_back();
    } else {
      pop_of_both();
    }
    --size_;
    next_known_ = late_.empty() && !current_.empty();
    next_ = next_known_ ? current_.back().time : Time::never();
    return e;
  }

 private:
  // A tick is 8.2 ns. The wheels turn in 67 us, 275 ms and 282 s; a slot of one is a turn of the
  // one before.
  static constexpr unsigned kTickShift = 13;
  static constexpr unsigned kBits0 = 13, kBits1 = 12, kBits2 = 10;
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr unsigned kRankShift = 40;  // below: so many insertions are a day of computing
  // How many events are looked at together if they are no further apart than 4 us.
  static constexpr size_t kAhead = 12;
  static constexpr int64_t kAheadTicks = 512;
  // Into so many a new one is put by moving those behind it.
  static constexpr size_t kFew = 64;

  struct Node {
    CalendarEvent event;
    uint32_t next;
  };
  struct Later {
    bool operator()(const CalendarEvent& a, const CalendarEvent& b) const {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };
  template <unsigned kBits>
  struct Wheel {
    static constexpr size_t kSlots = size_t{1} << kBits;
    static size_t slot(int64_t n) { return static_cast<size_t>(n) & (kSlots - 1); }
    /// Of a slot's events the earliest comes first in its list.
    void add(int64_t n, uint32_t node, std::vector<Node>& nodes) {
      const size_t at = slot(n);
      uint64_t& word = used[at / 64];
      const uint64_t bit = uint64_t{1} << at % 64;
      if ((word & bit) == 0) {
        nodes[node].next = kNone;
      } else if (Node& first = nodes[head[at]]; first.event.time < nodes[node].event.time) {
        nodes[node].next = std::exchange(first.next, node);
        return;
      } else {
        nodes[node].next = head[at];
      }
      word |= bit;
      head[at] = node;
    }
    /// The first slot behind `n` that has events before the wheel begins anew, or kSlots.
    size_t after(int64_t n) const {
      const size_t at = slot(n) + 1;
      for (size_t word = at / 64; word < kSlots / 64; ++word) {
        uint64_t bits = used[word];
        if (word == at / 64) bits &= ~uint64_t{0} << at % 64;
        if (bits != 0) return word * 64 + static_cast<size_t>(std::countr_zero(bits));
      }
      return kSlots;
    }
    uint32_t take(size_t at) {
      used[at / 64] &= ~(uint64_t{1} << at % 64);
      return head[at];
    }
    std::array<uint64_t, kSlots / 64> used{};
    std::array<uint32_t, kSlots> head;  ///< of those in use
  };

  static int64_t tick_of(Time time) { return time.ps() >> kTickShift; }

  void place(const CalendarEvent& e) {
    const int64_t tick = tick_of(e.time);
    if (tick <= tick_) return place_now(e);
    if ((tick ^ tick_) >> (kBits0 + kBits1 + kBits2) != 0) {
      far_.push_back(e);
      std::push_heap(far_.begin(), far_.end(), Later());
      return;
    }
    uint32_t node = free_;
    if (node == kNone) {
      node = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[node].next;
    }
    nodes_[node].event = e;
    put(node, tick);
  }
  /// Behind what turn() has taken from the wheels already. That is rare but where many events are
  /// made for one moment.
  void place_now(const CalendarEvent& e) {
    if (current_.size() < kFew) {
      current_.insert(std::upper_bound(current_.begin(), current_.end(), e, Later()), e);
    } else {
      late_.push_back(e);
      std::push_heap(late_.begin(), late_.end(), Later());
    }
  }
  bool late_comes_first() const {
    return !late_.empty() && Later()(current_.back(), late_.front());
  }
  [[gnu::noinline]] const CalendarEvent& first_of_both() const {
    return late_comes_first() ? late_.front() : current_.back();
  }
  [[gnu::noinline]] void pop_of_both() {
    if (!late_comes_first()) return current_.pop_back();
    std::pop_heap(late_.begin(), late_.end(), Later());
    late_.pop_back();
  }
  [[gnu::noinline]] void learn_next() {
    next_ = current_.empty() && late_.empty() ? find_next() : front().time;
    next_known_ = true;
  }
  [[gnu::noinline]] void refill() {
    if (late_.empty()) return turn();
    std::swap(current_, late_);
    std::sort(current_.begin(), current_.end(), Later());
  }
  void put(uint32_t node, int64_t tick) {
    if ((tick ^ tick_) >> kBits0 == 0) {
      wheel0_.add(tick, node, nodes_);
    } else if ((tick ^ tick_) >> (kBits0 + kBits1) == 0) {
      wheel1_.add(tick >> kBits0, node, nodes_);
    } else {
      wheel2_.add(tick >> (kBits0 + kBits1), node, nodes_);
    }
  }
  /// A slot of a slower wheel has come: its events go into the faster ones.
  void spread(uint32_t first) {
    for (uint32_t node = first; node != kNone;) {
      const uint32_t next = nodes_[node].next;
      const int64_t tick = tick_of(nodes_[node].event.time);
      if (tick == tick_) {
        drop(node);
      } else {
        put(node, tick);
      }
      node = next;
    }
  }
  void drop(uint32_t node) {
    current_.push_back(nodes_[node].event);
    nodes_[node].next = free_;
    free_ = node;
  }
  /// Goes on to the next tick that has events, of which there are some, and a little further, so
  /// that peek() sees who comes behind them.
  void turn() {
    int64_t last = 0;
    do {
      if (const size_t s0 = wheel0_.after(tick_); s0 < wheel0_.kSlots) {
        const int64_t tick = (tick_ >> kBits0 << kBits0) + static_cast<int64_t>(s0);
        if (!current_.empty() && tick > last) break;
        if (current_.empty()) last = tick + kAheadTicks;
        tick_ = tick;
        for (uint32_t node = wheel0_.take(s0); node != kNone;) {
          const uint32_t next = nodes_[node].next;
          drop(node);
          node = next;
        }
      } else if (!current_.empty()) {
        break;
      } else if (const size_t s1 = wheel1_.after(tick_ >> kBits0); s1 < wheel1_.kSlots) {
        constexpr unsigned kUp = kBits0 + kBits1;
        tick_ = (tick_ >> kUp << kUp) + (static_cast<int64_t>(s1) << kBits0);
        last = tick_;
        spread(wheel1_.take(s1));
        const size_t following = wheel1_.after(tick_ >> kBits0);
        scout_ = following < wheel1_.kSlots ? wheel1_.head[following] : kNone;
      } else if (const size_t s2 = wheel2_.after(tick_ >> (kBits0 + kBits1)); s2 < wheel2_.kSlots) {
        constexpr unsigned kUp = kBits0 + kBits1 + kBits2;
        tick_ = (tick_ >> kUp << kUp) + (static_cast<int64_t>(s2) << (kBits0 + kBits1));
        last = tick_;
        spread(wheel2_.take(s2));
      } else {
        fetch_far();
      }
    } while (current_.size() < kAhead);
    scout(current_.size());
    std::sort(current_.begin(), current_.end(), Later());
  }
  /// Goes along the list of the next slot to be spread, so that the memory has it ready by then.
  void scout(size_t steps) {
    for (; steps > 0 && scout_ != kNone; --steps) {
      scout_ = nodes_[scout_].next;
      if (scout_ != kNone) __builtin_prefetch(&nodes_[scout_]);
    }
  }
  void fetch_far() {
    constexpr unsigned kUp = kBits0 + kBits1 + kBits2;
    tick_ = tick_of(far_.front().time) >> kUp << kUp;
    while (!far_.empty() && (tick_of(far_.front().time) ^ tick_) >> kUp == 0) {
      std::pop_heap(far_.begin(), far_.end(), Later());
      const CalendarEvent e = far_.back();
      far_.pop_back();
      place(e);
    }
  }
  /// Looks only: what is pushed meanwhile may come before it.
  Time find_next() const {
    uint32_t node = kNone;
    if (const size_t s0 = wheel0_.after(tick_); s0 < wheel0_.kSlots) {
      node = wheel0_.head[s0];
    } else if (const size_t s1 = wheel1_.after(tick_ >> kBits0); s1 < wheel1_.kSlots) {
      node = wheel1_.head[s1];
    } else if (const size_t s2 = wheel2_.after(tick_ >> (kBits0 + kBits1)); s2 < wheel2_.kSlots) {
      node = wheel2_.head[s2];
    } else {
      return far_.empty() ? Time::never() : far_.front().time;
    }
    return nodes_[node].event.time;
  }

  int64_t tick_ = 0;                    ///< events up to this one are in current_, or have gone
  std::vector<CalendarEvent> current_;  ///< sorted, the next one at the end
  std::vector<CalendarEvent> late_;     ///< a heap: as near, but current_ was long
  Wheel<kBits0> wheel0_;
  Wheel<kBits1> wheel1_;
  Wheel<kBits2> wheel2_;
  std::vector<Node> nodes_;
  uint32_t free_ = kNone;           ///< of nodes_
  uint32_t scout_ = kNone;          ///< in the list of a slot of wheel1_ that has not come
  std::vector<CalendarEvent> far_;  ///< a heap
  size_t size_ = 0;
  uint64_t order_ = 0;
  Time next_ = Time::never();  ///< if next_known_; else of what was pushed since the last pop
  bool next_known_ = false;
};

}  // namespace understudy
