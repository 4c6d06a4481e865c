// PAT, NCCL's algorithm for all-gather and reduce-scatter with one rank a node (2.23 and later):
// the messages of one rank for one chunk. Every block travels along a binomial tree of distances
// 2^d; small blocks of several trees travel together in one message.
//
// Words: the piece s of a rank is the block of rank r + s (mod n). Reduce-scatter sends piece s
// from r to r + 2^d with d the lowest set bit of s, where it is piece s - 2^d, after all that is to
// be added to it has come from r - 2^e, e < d; piece 0 is the result. All-gather goes the opposite
// way. There are `trees` trees of pieces a * distance + u, a < trees. A row is the pieces of all
// trees with the same u; `per_message` of them are one message. The pieces with u = 0 go in levels:
// those with the same lowest bit of a.
//
// Where the number of ranks is no power of two, pieces are missing: up to 2.25 those that follow
// move up, later on a reduce-scatter's messages have gaps.
//
// Derived from the algorithm's description and checked against the counts and sizes of messages
// that NCCL's generators of 2.24.3 and 2.28.9 give (include/collectives.h).
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "collective_model/nccl/operation.h"

namespace understudy {

/// From this one on a reduce-scatter's messages have gaps.
inline constexpr NcclVersion kPatGapsSince{26};

class PatPattern {
 public:
  struct Need {
    uint32_t dimension = 0;
    uint32_t message = 0;  ///< of what is received in this dimension
  };
  /// One message of a chunk.
  struct Group {
    uint32_t pieces = 0;       ///< blocks that are sent, gaps included
    uint32_t first_piece = 0;  ///< first one that is no gap; as the sender counts
    std::vector<Need> needs;   ///< received before it can be sent
    /// All-gather: the message of dimension 0 that uses a received one last, or nothing.
    int64_t last_use = -1;
    /// The pieces in it, without gaps, in their order.
    struct Block {
      uint32_t piece = 0;  ///< as the sender counts
      uint32_t place = 0;  ///< in the message
    };
    std::vector<Block> blocks;
  };

  /// For blocks of `block_bytes` on a channel, cut in chunks of `chunk_bytes`; n >= 2 ranks.
  /// `gaps`: as since 2.26.
  PatPattern(bool gather, uint32_t ranks, uint64_t block_bytes, uint32_t chunk_bytes, bool gaps);

  uint32_t dimensions() const { return static_cast<uint32_t>(messages_.size()); }
  /// Messages of one chunk that a rank sends, and receives, over distance 2^dimension, in order.
  const std::vector<Group>& messages(uint32_t dimension) const { return messages_[dimension]; }

  /// Where a received piece comes: reduce-scatter: as its sender counts; all-gather: as its
  /// receiver does.
  struct Arrival {
    uint32_t dimension = 0, message = 0;
    uint32_t place = 0;  ///< in the message
  };
  Arrival arrival(uint32_t piece) const;
  /// Reduce-scatter: dimensions that piece `piece` of a rank (0: its result) is received in, in the
  /// order in which they are added to the rank's own.
  template <typename Visit>
  void each_added(uint32_t piece, Visit visit) const {
    const uint32_t last = piece == 0 ? dimensions() : lowest_bit_of(piece);
    const uint32_t trees = lowest_bit_of(distance_);
    const auto add = [&](uint32_t e) {
      if (e < last && piece + (1u << e) < ranks_) visit(e);
    };
    if (piece % distance_ != 0 || trees_ == 1) {
      for (uint32_t e = last; e-- > 0;) add(e);
      return;
    }
    for (uint32_t e = trees; e-- > 1;) add(e);
    for (uint32_t e = trees; e < last; ++e) add(e);
    add(0);
  }

 private:
  static uint32_t lowest_bit_of(uint32_t x) { return static_cast<uint32_t>(std::countr_zero(x)); }
  void add_row(uint32_t u);
  void add_level(uint32_t scale);
  void add(uint32_t dimension, const std::vector<uint32_t>& pieces);
  void add_message(uint32_t dimension, const uint32_t* pieces, uint32_t count);
  void need(Group& group, uint32_t piece, bool last_use);
  uint32_t mirrored(uint32_t i, uint32_t count) const;

  bool gather_;
  bool gaps_;
  uint32_t ranks_;
  uint32_t trees_ = 1;
  uint32_t distance_ = 1;  ///< between pieces of neighbouring trees
  uint32_t per_message_ = 1;
  std::vector<std::vector<Group>> messages_;
  /// By piece, as who sends it (reduce-scatter) or gets it (all-gather) counts: its message, and
  /// its place there.
  std::vector<uint32_t> message_of_, place_of_;
};

}  // namespace understudy
