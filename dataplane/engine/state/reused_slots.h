// Values that are named by a number until they are taken back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace understudy {

/// Allocates only beyond `room` values at once.
template <typename T>
class ReusedSlots {
 public:
  explicit ReusedSlots(size_t room) {
    values_.reserve(room);
    free_.reserve(room);
  }
  /// Its number.
  uint32_t put(const T& value) {
    if (free_.empty()) {
      values_.push_back(value);
      return static_cast<uint32_t>(values_.size()) - 1;
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    values_[slot] = value;
    return slot;
  }
  /// Every value that is here, and some that were taken.
  template <typename Do>
  void for_each(Do change) {
    for (T& value : values_) change(value);
  }
  /// The value of this number, which is free then.
  T take(uint32_t slot) {
    free_.push_back(slot);
    return values_[slot];
  }

 private:
  std::vector<T> values_;
  std::vector<uint32_t> free_;
};

}  // namespace understudy
