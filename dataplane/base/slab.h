// Room for many objects of one kind, which come and go one by one: side by side, in huge pages once
// they are many.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "dataplane/base/assert.h"
#include "dataplane/base/big_array.h"

namespace understudy {

/// Outlives what it has made. One thread at a time.
template <typename T>
class Slab {
 public:
  struct Delete {
    Slab* slab = nullptr;
    void operator()(T* object) const {
      std::destroy_at(object);
      slab->put(object);
    }
  };
  using Pointer = std::unique_ptr<T, Delete>;

  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() {
    for (const Chunk& chunk : chunks_) BigAllocator<T>().deallocate(chunk.first, chunk.count);
  }

  template <typename... Arguments>
  Pointer make(Arguments&&... arguments) {
    Free* const free = free_;
    Free* const rest = free != nullptr ? free->next : nullptr;
    if (free == nullptr && fresh_ == 0) grow();
    T* const place = free != nullptr ? reinterpret_cast<T*>(free)
                                     : chunks_.back().first + (chunks_.back().count - fresh_);
    T* const object = std::construct_at(place, std::forward<Arguments>(arguments)...);
    free_ = rest;
    if (free == nullptr) --fresh_;
    return Pointer(object, {this});
  }

 private:
  static constexpr size_t kFirst = 16, kMost = std::max<size_t>((16 << 20) / sizeof(T), kFirst);
  struct Free {
    Free* next;
  };
  static_assert(sizeof(T) >= sizeof(Free));
  struct Chunk {
    T* first;
    size_t count;
  };

  /// As many again as there are, up to some huge pages.
  void grow() {
    ASSERT_INVARIANT(free_ == nullptr && fresh_ == 0);
    const size_t count = std::clamp(made_, kFirst, kMost);
    chunks_.push_back({BigAllocator<T>().allocate(count), count});
    made_ += count;
    fresh_ = count;
  }
  /// Where no object is, there is a link.
  void put(T* place) {
    DEBUG_ASSERT_INVARIANT(place != nullptr && made_ > 0);
    free_ = std::construct_at(reinterpret_cast<Free*>(place), Free{free_});
  }

  std::vector<Chunk> chunks_;
  Free* free_ = nullptr;
  size_t made_ = 0, fresh_ = 0;  ///< places; those of the last chunk that had no object yet
};

}  // namespace understudy
