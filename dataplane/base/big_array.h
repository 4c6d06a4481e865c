// Memory of arrays that are reached in any order: in huge pages where they are large and the kernel
// has some, so that finding a page costs little; aligned to cache lines.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <vector>

namespace understudy {

template <typename T>
class BigAllocator {
 public:
  using value_type = T;
  BigAllocator() = default;
  template <typename U>
  explicit BigAllocator(const BigAllocator<U>&) {}

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    void* const p = ::operator new(bytes, alignment(bytes));
    // Advice only: where there are no huge pages it stays without effect.
    if (bytes >= kHugePage) madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return static_cast<T*>(p);
  }
  void deallocate(T* p, size_t count) { ::operator delete(p, alignment(count * sizeof(T))); }
  bool operator==(const BigAllocator&) const = default;

 private:
  static constexpr size_t kHugePage = 2 << 20;
  static constexpr std::align_val_t alignment(size_t bytes) {
    return std::align_val_t(bytes >= kHugePage ? kHugePage : std::max(alignof(T), size_t{64}));
  }
};

/// A vector that is sized once.
template <typename T>
using BigArray = std::vector<T, BigAllocator<T>>;

}  // namespace understudy
