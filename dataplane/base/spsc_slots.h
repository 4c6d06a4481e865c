// Single-producer single-consumer ring of slots that are filled and read where they are: what
// stands in a slot may be large, and stays there for the producer when the consumer is done.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <vector>

#include "dataplane/base/assert.h"

namespace understudy {

/// Wait-free; the slots are made once, at construction.
template <typename T>
class SpscSlots {
 public:
  /// At least `capacity` of them (rounded up to a power of two).
  explicit SpscSlots(size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1), slots_(std::bit_ceil(capacity)) {}

  size_t capacity() const { return mask_ + 1; }
  /// For setting up, before there are two threads, and for taking down.
  std::vector<T>& all() { return slots_; }

  /// Producer only: the slot that is `ahead` behind the next one to fill; null if it is not free.
  T* free_slot(size_t ahead = 0) {
    const size_t at = head_.load(std::memory_order_relaxed) + ahead;
    if (at - cached_tail_ > mask_) {
      cached_tail_ = tail_.load(std::memory_order_acquire);
      if (at - cached_tail_ > mask_) return nullptr;
    }
    return &slots_[at & mask_];
  }
  /// Producer only: the next `count` slots have been filled.
  void publish(size_t count = 1) {
    DEBUG_ASSERT_INVARIANT(head_.load() + count - tail_.load() <= capacity());
    head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }
  /// Producer only: how many slots, of all that it has ever filled, the consumer is done with.
  size_t done_with() { return cached_tail_ = tail_.load(std::memory_order_acquire); }
  /// Producer only: slots to fill among these. Of others that have become free since, what stands in
  /// them has not been looked at.
  size_t free_slots() const {
    return capacity() - (head_.load(std::memory_order_relaxed) - cached_tail_);
  }
  /// Producer only: the slot that was filled behind `count` others.
  T& filled(size_t count) { return slots_[count & mask_]; }

  /// Consumer only: the slot that was filled `behind` slots after the oldest; null if none is.
  T* front(size_t behind = 0) {
    const size_t at = tail_.load(std::memory_order_relaxed) + behind;
    if (at >= cached_head_) {
      cached_head_ = head_.load(std::memory_order_acquire);
      if (at >= cached_head_) return nullptr;
    }
    return &slots_[at & mask_];
  }
  /// Consumer only.
  bool empty() const {
    return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire);
  }
  /// Consumer only: it is done with the oldest `count`.
  void pop(size_t count = 1) {
    DEBUG_ASSERT_INVARIANT(tail_.load() + count <= head_.load());
    tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);
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
