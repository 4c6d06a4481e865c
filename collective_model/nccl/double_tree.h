// Two binary trees over the same ranks, as NCCL's (graph/trees.cc; Sanders, Speck and Traeff 2009):
// each reduces and spreads half of the data, and those that are inner nodes of one are leaves of
// the other, so that every rank sends and receives as much as in a ring.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace understudy {

/// Places 0 .. ranks-1 of a binary tree in their order; 0 stands above its root, as parent of one
/// child only.
class DoubleTree {
 public:
  static constexpr uint32_t kTrees = 2;

  /// At least two ranks.
  explicit DoubleTree(uint32_t ranks) : ranks_(ranks) {}

  /// Of the place, which is not 0.
  uint32_t parent(uint32_t place) const {
    const uint32_t height = place & (~place + 1);
    const uint32_t up = (place ^ height) | height << 1;
    return up < ranks_ ? up : place ^ height;
  }

  /// Of any place: child 0 has a lower place, child 1 a higher one.
  std::optional<uint32_t> child(uint32_t place, uint32_t which) const {
    if (place == 0) {
      if (which == 0 || ranks_ < 2) return std::nullopt;
      return std::bit_ceil(ranks_) / 2;
    }
    uint32_t distance = (place & (~place + 1)) / 2;
    if (distance == 0) return std::nullopt;
    if (which == 0) return place - distance;
    while (distance != 0 && place + distance >= ranks_) distance /= 2;
    if (distance == 0) return std::nullopt;
    return place + distance;
  }

  /// By place.
  std::vector<std::vector<uint32_t>> children() const {
    std::vector<std::vector<uint32_t>> of(ranks_);
    for (uint32_t place = 1; place < ranks_; ++place) of[parent(place)].push_back(place);
    return of;
  }

  /// Who has this place: the second tree is the first one mirrored, or moved on by one if the
  /// number of ranks is odd.
  uint32_t rank(uint32_t tree, uint32_t place) const {
    if (tree == 0) return place;
    return ranks_ % 2 == 0 ? ranks_ - 1 - place : (place + 1) % ranks_;
  }
  uint32_t place(uint32_t tree, uint32_t rank) const {
    if (tree == 0) return rank;
    return ranks_ % 2 == 0 ? ranks_ - 1 - rank : (rank + ranks_ - 1) % ranks_;
  }

 private:
  uint32_t ranks_;
};

}  // namespace understudy
