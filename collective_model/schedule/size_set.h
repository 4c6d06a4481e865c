// A set of sizes in bytes, as disjoint intervals in ascending order: what an observation leaves of
// the sizes that something may have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace understudy {

class SizeSet {
 public:
  static constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();
  struct Interval {
    uint64_t least = 0, most = 0;  ///< both belong to it
    constexpr bool operator==(const Interval&) const = default;
  };

  SizeSet() = default;
  SizeSet(uint64_t least, uint64_t most) { add(least, most); }

  /// Joins an interval, empty if least > most. Cheapest in ascending order.
  void add(uint64_t least, uint64_t most) {
    if (least > most) return;
    auto first = intervals_.begin();
    if (intervals_.empty() || intervals_.back().most < least) {
      first = intervals_.end();
    } else {
      first = std::ranges::lower_bound(intervals_, least, {}, &Interval::most);
    }
    if (first != intervals_.begin() && std::prev(first)->most + 1 == least) --first;
    auto last = first;
    while (last != intervals_.end() && (last->least <= most || last->least == most + 1)) {
      least = std::min(least, last->least);
      most = std::max(most, last->most);
      ++last;
    }
    first = intervals_.erase(first, last);
    intervals_.insert(first, {least, most});
  }

  SizeSet intersected(const SizeSet& other) const {
    SizeSet both;
    auto a = intervals_.begin(), b = other.intervals_.begin();
    while (a != intervals_.end() && b != other.intervals_.end()) {
      both.add(std::max(a->least, b->least), std::min(a->most, b->most));
      if (a->most < b->most) {
        ++a;
      } else {
        ++b;
      }
    }
    return both;
  }

  bool empty() const { return intervals_.empty(); }
  bool single() const {
    return intervals_.size() == 1 && intervals_[0].least == intervals_[0].most;
  }
  bool contains(uint64_t size) const {
    const auto at = std::ranges::lower_bound(intervals_, size, {}, &Interval::most);
    return at != intervals_.end() && at->least <= size;
  }
  uint64_t least() const { return intervals_.front().least; }
  uint64_t most() const { return intervals_.back().most; }
  const std::vector<Interval>& intervals() const { return intervals_; }
  bool operator==(const SizeSet&) const = default;

 private:
  std::vector<Interval> intervals_;
};

}  // namespace understudy
