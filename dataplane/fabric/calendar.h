// A calendar of events in the order of their time, and of their insertion where times are equal:
// a run in virtual time is repeatable. A timing wheel for what comes soon (constant cost, however
// many there are) and a heap for what is far away.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
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
  Calendar() : slots_(kSlots) {}

  /// `time` may have passed: then the event comes next, behind others that are due.
  void push(Time time, uint32_t kind, uint32_t index) {
    const CalendarEvent e{time, order_++, kind, index};
    const int64_t tick = time.ps() >> kTickShift;
    ++size_;
    if (tick <= tick_) {
      // Rare: most events are further away than a tick.
      current_.insert(std::upper_bound(current_.begin(), current_.end(), e, Later()), e);
    } else if (tick - tick_ < static_cast<int64_t>(kSlots)) {
      put(tick, e);
    } else {
      far_.push_back(e);
      std::push_heap(far_.begin(), far_.end(), Later());
    }
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  /// Of the next event, never() without one.
  Time next() {
    if (current_.empty() && !turn()) return Time::never();
    return current_.back().time;
  }
  /// The one `ahead` events behind the next, as far as it is known yet; else null.
  const CalendarEvent* peek(size_t ahead) const {
    return ahead < current_.size() ? &current_[current_.size() - 1 - ahead] : nullptr;
  }
  /// There must be one: call next() before.
  CalendarEvent pop() {
    const CalendarEvent e = current_.back();
    current_.pop_back();
    --size_;
    return e;
  }

 private:
  // 8.2 ns a tick, 67 us a turn: a few packets' times and most links' latencies.
  static constexpr unsigned kTickShift = 13;
  static constexpr size_t kSlots = 8192;
  static constexpr size_t kWords = kSlots / 64;

  struct Later {
    bool operator()(const CalendarEvent& a, const CalendarEvent& b) const {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };
  void put(int64_t tick, const CalendarEvent& e) {
    const size_t slot = static_cast<size_t>(tick) % kSlots;
    slots_[slot].push_back(e);
    used_[slot / 64] |= uint64_t{1} << slot % 64;
  }
  /// Goes on to the next tick that has events. False: there are none.
  bool turn() {
    if (size_ == 0) return false;
    const int64_t near = next_used();
    if (near < 0) {  // nothing in the wheel: go where the far ones begin
      tick_ = far_.front().time.ps() >> kTickShift;
    } else {
      tick_ = near;
      if (!far_.empty()) tick_ = std::min(tick_, far_.front().time.ps() >> kTickShift);
    }
    while (!far_.empty() &&
           (far_.front().time.ps() >> kTickShift) - tick_ < static_cast<int64_t>(kSlots)) {
      std::pop_heap(far_.begin(), far_.end(), Later());
      put(far_.back().time.ps() >> kTickShift, far_.back());
      far_.pop_back();
    }
    const size_t slot = static_cast<size_t>(tick_) % kSlots;
    current_.swap(slots_[slot]);
    used_[slot / 64] &= ~(uint64_t{1} << slot % 64);
    std::sort(current_.begin(), current_.end(), Later());
    return true;
  }
  /// The first tick after tick_ with events in the wheel, or -1.
  int64_t next_used() const {
    const auto begin = static_cast<size_t>(tick_ + 1) % kSlots;
    for (size_t n = 0; n <= kWords; ++n) {
      const size_t word = (begin / 64 + n) % kWords;
      uint64_t bits = used_[word];
      if (n == 0) bits &= ~uint64_t{0} << begin % 64;
      if (n == kWords) bits &= ~(~uint64_t{0} << begin % 64);
      if (bits == 0) continue;
      const size_t slot = word * 64 + static_cast<size_t>(std::countr_zero(bits));
      return tick_ + 1 + static_cast<int64_t>((slot + kSlots - begin) % kSlots);
    }
    return -1;
  }

  int64_t tick_ = -1;                   ///< whose events are in current_; earlier ones have gone
  std::vector<CalendarEvent> current_;  ///< sorted, the next one at the end
  std::vector<std::vector<CalendarEvent>> slots_;
  std::array<uint64_t, kWords> used_{};
  std::vector<CalendarEvent> far_;  ///< a heap
  size_t size_ = 0;
  uint64_t order_ = 0;
};

}  // namespace understudy
