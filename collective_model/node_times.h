// Times by node along a chain, kept as pieces of straight lines: what a message costs along a
// regular chain is the same from node to node. The pieces of many of them lie in one store.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

struct LinePiece {
  uint32_t begin = 0;  ///< node
  Time first;
  Duration slope;  ///< from node to node
  Time at(uint32_t node) const { return first + slope * (int64_t{node} - begin); }
};

/// Blocks of 2, 4, 8 .. pieces. Allocates when more are in use than ever before.
class PieceStore {
 public:
  explicit PieceStore(size_t room = 0) : pieces_(room) { reset(); }
  /// Forgets all blocks.
  void reset() {
    free_.fill(kNone);
    used_ = 0;
  }
  /// A block of 2 << `size` pieces.
  uint32_t take(uint32_t size) {
    uint32_t block = free_[size];
    if (block != kNone) {
      free_[size] = pieces_[block].begin;
      return block;
    }
    block = used_;
    used_ += 2u << size;
    if (used_ > pieces_.size()) pieces_.resize(std::max<size_t>(used_, pieces_.size() * 2));
    return block;
  }
  void give_back(uint32_t block, uint32_t size) {
    pieces_[block].begin = free_[size];
    free_[size] = block;
  }
  LinePiece& operator[](uint32_t i) { return pieces_[i]; }
  const LinePiece& operator[](uint32_t i) const { return pieces_[i]; }

 private:
  static constexpr uint32_t kNone = ~0u;
  std::vector<LinePiece> pieces_;
  std::array<uint32_t, 30> free_{};  ///< first block of each size; its `begin` is the next one
  uint32_t used_ = 0;
};

class NodeTimes {
 public:
  void clear(PieceStore& store, uint32_t first) {
    if (room_ != 0) store.give_back(block_, size_of_room());
    room_ = count_ = 0;
    end_ = first;
  }
  /// Of a store that was reset.
  void forget() { room_ = count_ = 0; }
  /// The next node's.
  void push(PieceStore& store, Time t) {
    if (count_ != 0) {
      LinePiece& last = store[block_ + count_ - 1];
      if (end_ - last.begin == 1) last.slope = t - last.first;
      if (last.at(end_) == t) {
        ++end_;
        return;
      }
    }
    add(store, {end_++, t, Duration()});
  }
  /// Those of the next `count` > 0 nodes.
  void push(PieceStore& store, uint32_t count, Time first, Duration slope) {
    push(store, first);
    if (count == 1) return;
    LinePiece& last = store[block_ + count_ - 1];
    if (end_ - last.begin == 1) last.slope = slope;
    if (last.slope != slope) add(store, {end_ - 1, first, slope});
    end_ += count - 1;
  }

  uint32_t end() const { return end_; }
  Time at(const PieceStore& store, uint32_t node) const {
    return store[piece(store, node)].at(node);
  }
  /// In the store: the piece that holds a node, and the last one.
  uint32_t piece(const PieceStore& store, uint32_t node) const {
    uint32_t first = block_;
    for (uint32_t count = count_; count > 1;) {
      const uint32_t half = count / 2;
      if (store[first + half].begin <= node) first += half;
      count -= half;
    }
    return first;
  }
  uint32_t last_piece() const { return block_ + count_ - 1; }

 private:
  uint32_t size_of_room() const {
    uint32_t size = 0;
    while (2u << size < room_) ++size;
    return size;
  }
  void add(PieceStore& store, LinePiece piece) {
    if (count_ == room_) {
      const uint32_t size = room_ == 0 ? 0 : size_of_room() + 1;
      const uint32_t block = store.take(size);
      for (uint32_t i = 0; i < count_; ++i) store[block + i] = store[block_ + i];
      if (room_ != 0) store.give_back(block_, size - 1);
      block_ = block;
      room_ = 2u << size;
    }
    store[block_ + count_++] = piece;
  }

  uint32_t block_ = 0, room_ = 0, count_ = 0;
  uint32_t end_ = 0;
};

}  // namespace understudy
