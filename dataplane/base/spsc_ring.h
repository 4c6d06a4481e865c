// Single-producer single-consumer ring of plain structs: the only way control and a shard talk.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace understudy {

/// Wait-free; the storage is allocated once, at construction. T must be trivially copyable.
template <typename T>
class SpscRing {
  static_assert(std::is_trivially_copyable_v<T>, "rings carry plain structs");

 public:
  /// Holds at least `capacity` entries (rounded up to a power of two).
  explicit SpscRing(size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1), slots_(std::bit_ceil(capacity)) {}

  /// Producer only. False when full: nothing was written.
  bool push(const T& value) {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head - cached_tail_ > mask_) {
      cached_tail_ = tail_.load(std::memory_order_acquire);
      if (head - cached_tail_ > mask_) return false;
    }
    slots_[head & mask_] = value;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  /// Consumer only. False when empty.
  bool pop(T& value) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == cached_head_) {
      cached_head_ = head_.load(std::memory_order_acquire);
      if (tail == cached_head_) return false;
    }
    value = slots_[tail & mask_];
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  /// Consumer only.
  bool empty() const {
    return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire);
  }

 private:
  static constexpr size_t kLine = 64;  // keeps the two sides off each other's cache line
  const size_t mask_;
  std::vector<T> slots_;
  alignas(kLine) std::atomic<size_t> head_{0};
  size_t cached_tail_ = 0;
  alignas(kLine) std::atomic<size_t> tail_{0};
  size_t cached_head_ = 0;
};

}  // namespace understudy
