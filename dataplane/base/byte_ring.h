// Single-producer single-consumer ring of variable-length records: how frames leave a shard for a
// slower thread (capture file, exception port) without a lock, a system call or an allocation.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "dataplane/base/assert.h"

namespace understudy {

/// A record is one contiguous run of bytes, 8-byte aligned; records never wrap.
class ByteRing {
 public:
  /// `capacity` bytes, rounded up to a power of two; a record may take up to half of it.
  explicit ByteRing(size_t capacity)
      : size_(std::bit_ceil(std::max<size_t>(capacity, 64))), bytes_(size_) {}

  /// Producer: room for one record of `bytes`, or null when the ring is too full. The record
  /// appears to the consumer at commit().
  uint8_t* reserve(uint32_t bytes) {
    const size_t need = record_bytes(bytes);
    const size_t head = head_.load(std::memory_order_relaxed);
    const size_t to_end = size_ - (head & (size_ - 1));
    const size_t skip = to_end < need ? to_end : 0;
    if (size_ - (head - tail_.load(std::memory_order_acquire)) < skip + need) return nullptr;
    if (skip != 0) store_length(head, kSkip);
    reserved_ = head + skip;
    return at(reserved_) + kHeader;
  }

  /// Producer: publishes the reserved record with its final length (at most what was reserved).
  void commit(uint32_t bytes) {
    DEBUG_ASSERT_INVARIANT(reserved_ + record_bytes(bytes) - tail_.load() <= size_);
    store_length(reserved_, bytes);
    head_.store(reserved_ + record_bytes(bytes), std::memory_order_release);
  }

  /// Consumer: front() has nothing.
  bool empty() const {
    return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire);
  }

  /// Consumer: the oldest record, or an empty span with null data when there is none.
  std::span<const uint8_t> front() {
    for (;;) {
      const size_t tail = tail_.load(std::memory_order_relaxed);
      if (tail == head_.load(std::memory_order_acquire)) return {};
      uint32_t length;
      std::memcpy(&length, at(tail), sizeof length);
      if (length != kSkip) return {at(tail) + kHeader, length};
      tail_.store(tail + size_ - (tail & (size_ - 1)), std::memory_order_release);
    }
  }

  /// Consumer: releases the record that front() returned.
  void pop() {
    DEBUG_ASSERT_INVARIANT(!empty());
    const size_t tail = tail_.load(std::memory_order_relaxed);
    uint32_t length;
    std::memcpy(&length, at(tail), sizeof length);
    tail_.store(tail + record_bytes(length), std::memory_order_release);
  }

 private:
  static constexpr size_t kHeader = 8;
  static constexpr uint32_t kSkip = 0xffffffff;
  static constexpr size_t record_bytes(uint32_t bytes) {
    return (kHeader + bytes + 7) & ~size_t{7};
  }
  uint8_t* at(size_t index) { return bytes_.data() + (index & (size_ - 1)); }
  void store_length(size_t index, uint32_t length) {
    std::memcpy(at(index), &length, sizeof length);
  }

  const size_t size_;
  std::vector<uint8_t> bytes_;
  alignas(64) std::atomic<size_t> head_{0};
  size_t reserved_ = 0;
  alignas(64) std::atomic<size_t> tail_{0};
};

}  // namespace understudy
