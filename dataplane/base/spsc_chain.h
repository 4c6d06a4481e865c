// Single-producer single-consumer queue of plain structs that has as much room as one side gives
// it: where much comes at once and little later, and the other side must not allocate.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

/// Wait-free for who does not give room. That is the owner's part, who is the producer or the
/// consumer; what has been read through comes back to him when he gives more.
template <typename T>
class SpscChain {
  static_assert(std::is_trivially_copyable_v<T>, "chains carry plain structs");

 public:
  SpscChain() = default;
  SpscChain(const SpscChain&) = delete;
  SpscChain& operator=(const SpscChain&) = delete;
  ~SpscChain() {
    while (first_ != nullptr) delete std::exchange(first_, first_->next);
    delete spare_;
  }

  /// Owner only: room for one more entry than before. An owner who consumes tells the producer of
  /// it, by whatever makes that one see what was written before.
  void make_room() {
    const size_t read = read_.load(std::memory_order_acquire);
    // Behind the first entry of a chunk nobody comes back to the one before.
    while (read > freed_ + kChunk) {
      delete spare_;
      spare_ = std::exchange(first_, first_->next);
      freed_ += kChunk;
    }
    if (room_++ % kChunk != 0) return;
    Chunk* const added = spare_ != nullptr ? std::exchange(spare_, nullptr) : new Chunk;
    added->next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = added;
    if (last_ == nullptr) from_ = to_ = added;
    last_ = added;
  }

  /// Producer only; there is room.
  void push(const T& value) {
    const size_t at = written_.load(std::memory_order_relaxed);
    if (at % kChunk == 0 && at != 0) to_ = to_->next;
    DEBUG_ASSERT_INVARIANT(to_ != nullptr);
    to_->entries[at % kChunk] = value;
    written_.store(at + 1, std::memory_order_release);
  }

  /// Consumer only: entries that may be read.
  size_t size() const {
    return written_.load(std::memory_order_acquire) - read_.load(std::memory_order_relaxed);
  }
  bool empty() const { return size() == 0; }
  /// Consumer only: shows the first `count` entries, of which there are as many.
  template <typename Look>
  void look(size_t count, Look look) const {
    DEBUG_ASSERT_INVARIANT(count <= size());
    size_t at = read_.load(std::memory_order_relaxed);
    const Chunk* chunk = from_;
    for (; count > 0; --count, ++at) {
      if (at % kChunk == 0 && at != 0) chunk = chunk->next;
      look(chunk->entries[at % kChunk]);
    }
  }
  /// Consumer only. False when empty.
  bool pop(T& value) {
    if (empty()) return false;
    const size_t at = read_.load(std::memory_order_relaxed);
    if (at % kChunk == 0 && at != 0) from_ = from_->next;
    value = from_->entries[at % kChunk];
    read_.store(at + 1, std::memory_order_release);
    return true;
  }

 private:
  static constexpr size_t kChunk = 16;
  static constexpr size_t kLine = 64;  // keeps the two sides off each other's cache line
  struct Chunk {
    std::array<T, kChunk> entries;
    Chunk* next;
  };

  // The owner's.
  Chunk* first_ = nullptr;
  Chunk* last_ = nullptr;
  Chunk* spare_ = nullptr;  ///< one that has been read through
  size_t room_ = 0;         ///< entries that there ever was room for
  size_t freed_ = 0;        ///< ... in chunks before the first
  alignas(kLine) std::atomic<size_t> written_{0};
  Chunk* to_ = nullptr;  ///< of the entry written last
  alignas(kLine) std::atomic<size_t> read_{0};
  Chunk* from_ = nullptr;  ///< of the entry read last
};

}  // namespace understudy
