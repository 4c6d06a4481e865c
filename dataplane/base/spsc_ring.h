// Single-producer single-consumer ring of plain structs, which are copied in and out.
#pragma once

#include <cstddef>
#include <type_traits>

#include "dataplane/base/spsc_slots.h"

namespace understudy {

/// Wait-free; the storage is allocated once, at construction. T must be trivially copyable.
template <typename T>
class SpscRing {
  static_assert(std::is_trivially_copyable_v<T>, "rings carry plain structs");

 public:
  /// Holds at least `capacity` entries (rounded up to a power of two).
  explicit SpscRing(size_t capacity) : slots_(capacity) {}

  /// Producer only. False when full: nothing was written.
  bool push(const T& value) {
    T* const slot = slots_.free_slot();
    if (slot == nullptr) return false;
    *slot = value;
    slots_.publish();
    return true;
  }

  /// Consumer only. False when empty.
  bool pop(T& value) {
    const T* const slot = slots_.front();
    if (slot == nullptr) return false;
    value = *slot;
    slots_.pop();
    return true;
  }

  /// Consumer only.
  bool empty() const { return slots_.empty(); }

 private:
  SpscSlots<T> slots_;
};

}  // namespace understudy
