// Times by node along a chain, kept as pieces of straight lines: what a message costs along a
// regular chain is the same from node to node. The pieces of many of them lie in one store.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

/// Blocks of 2, 4, 8 .. items, each of which begins somewhere (`begin`). Allocates when more are in
/// use than ever before.
template <typename T>
class BlockStore {
 public:
  explicit BlockStore(size_t room = 0) : items_(room) { reset(); }
  /// Forgets all blocks.
  void reset() {
    free_.fill(kNone);
    used_ = 0;
  }
  /// A block of 2 << `size` items.
  uint32_t take(uint32_t size) {
    uint32_t block = free_[size];
    if (block != kNone) {
      free_[size] = items_[block].begin;
      return block;
    }
    block = used_;
    used_ += 2u << size;
    if (used_ > items_.size()) items_.resize(std::max<size_t>(used_, items_.size() * 2));
    return block;
  }
  void give_back(uint32_t block, uint32_t size) {
    items_[block].begin = free_[size];
    free_[size] = block;
  }
  T& operator[](uint32_t i) { return items_[i]; }
  const T& operator[](uint32_t i) const { return items_[i]; }

 private:
  static constexpr uint32_t kNone = ~0u;
  std::vector<T> items_;
  std::array<uint32_t, 30> free_{};  ///< first block of each size; its `begin` is the next one
  uint32_t used_ = 0;
};

/// Items in a store, in the order of their begins. Places are the store's.
template <typename T>
class BlockList {
 public:
  uint32_t count() const { return count_; }
  uint32_t first() const { return block_; }
  uint32_t last() const { return block_ + count_ - 1; }
  /// The item that holds a node: the last one that begins at it or before.
  uint32_t find(const BlockStore<T>& store, uint32_t node) const {
    // Most are asked for a chain's first or last nodes.
    if (count_ <= 1) return block_;
    if (store[last()].begin <= node) return last();
    uint32_t first = block_;
    if (node < store[first + 1].begin) return first;
    for (uint32_t count = count_; count > 1;) {
      const uint32_t half = count / 2;
      if (store[first + half].begin <= node) first += half;
      count -= half;
    }
    return first;
  }
  void add(BlockStore<T>& store, const T& item) {
    if (count_ == room_) {
      const uint32_t size = room_ == 0 ? 0 : size_of_room() + 1;
      const uint32_t block = store.take(size);
      for (uint32_t i = 0; i < count_; ++i) store[block + i] = store[block_ + i];
      if (room_ != 0) store.give_back(block_, size - 1);
      block_ = block;
      room_ = 2u << size;
    }
    store[block_ + count_++] = item;
  }
  void clear(BlockStore<T>& store) {
    if (room_ != 0) store.give_back(block_, size_of_room());
    forget();
  }
  /// Of a store that was reset.
  void forget() { room_ = count_ = 0; }

 private:
  uint32_t size_of_room() const { return static_cast<uint32_t>(std::countr_zero(room_)) - 1; }
  uint32_t block_ = 0, room_ = 0, count_ = 0;
};

struct LinePiece {
  uint32_t begin = 0;  ///< node
  Time first;
  Duration slope;  ///< from node to node
  Time at(uint32_t node) const { return first + slope * (int64_t{node} - begin); }
};
using PieceStore = BlockStore<LinePiece>;

class NodeTimes {
 public:
  void clear(PieceStore& store, uint32_t first) {
    pieces_.clear(store);
    end_ = first;
  }
  /// Of a store that was reset.
  void forget() { pieces_.forget(); }
  /// Goes on at a later node: those between are not asked for.
  void skip_to(uint32_t node) { end_ = node; }
  /// The next node's.
  void push(PieceStore& store, Time t) {
    if (pieces_.count() != 0) {
      LinePiece& last = store[pieces_.last()];
      if (end_ - last.begin == 1) last.slope = t - last.first;
      if (last.at(end_) == t) {
        ++end_;
        return;
      }
    }
    pieces_.add(store, {end_++, t, Duration()});
  }
  /// Those of the next `count` > 0 nodes.
  void push(PieceStore& store, uint32_t count, Time first, Duration slope) {
    if (count == 1) return push(store, first);
    if (pieces_.count() != 0) {
      LinePiece& last = store[pieces_.last()];
      if (end_ - last.begin == 1 && first - last.first == slope) last.slope = slope;
      if (last.slope == slope && last.at(end_) == first) {
        end_ += count;
        return;
      }
    }
    pieces_.add(store, {end_, first, slope});
    end_ += count;
  }

  Time at(const PieceStore& store, uint32_t node) const {
    return store[pieces_.find(store, node)].at(node);
  }
  /// In the store: the piece that holds a node, and the last one.
  uint32_t piece(const PieceStore& store, uint32_t node) const { return pieces_.find(store, node); }
  uint32_t last_piece() const { return pieces_.last(); }

 private:
  BlockList<LinePiece> pieces_;
  uint32_t end_ = 0;
};

}  // namespace understudy
