// Exact payload: the values of an operation over a ring by the Simple protocol, with one rank a
// node. Ranks that reduce add their own contribution in ring order, received + own, as NCCL's
// kernels do.
#pragma once

#include <cstdint>
#include <span>

#include "collective_model/schedule/schedule.h"
#include "dataplane/base/pattern.h"

namespace understudy {

struct ExactRing {
  Collective collective = Collective::kAllReduce;
  uint32_t root = 0;  ///< of broadcast and reduce
  uint32_t ranks = 0;
  uint32_t real = 0;
  uint32_t emulated = 0;  ///< ranks between `real` and the real one before it, which may be itself
  uint64_t seed = 0;      ///< of the emulated ranks' contributions

  uint32_t next(uint32_t rank) const { return rank + 1 == ranks ? 0 : rank + 1; }
  uint32_t previous(uint32_t rank) const { return rank == 0 ? ranks - 1 : rank - 1; }

  bool reduces() const {
    return collective != Collective::kAllGather && collective != Collective::kBroadcast;
  }
  /// How far back along the ring the rank is whose contribution was the first in message `k` that
  /// `sender` sends; 0: itself.
  uint32_t hops(uint32_t sender, const Connection& c, uint64_t k) const;
  /// Whether the receiver of a message with so many hops adds its own contribution, or takes it as
  /// it is.
  bool adds(uint32_t hops) const { return reduces() && hops + 1 < ranks; }
  /// Messages between the one that `real` receives and the one of the real rank before it that
  /// emulated ranks make it of: a step for each rank between them, where ranks take turns.
  uint64_t round(const Connection& c) const {
    if (is_pipeline(collective)) return 0;
    return uint64_t{emulated} * (c.chunk_steps / c.slice_steps);
  }

  /// Elements of its own that a rank has in the operation's buffer of `count` elements before it
  /// begins.
  struct Range {
    uint64_t first = 0, count = 0;
  };
  Range contribution(uint32_t rank, uint64_t count) const;

  /// What the chain of emulated ranks sends `real` in a message of so many hops: `out` is the part
  /// of the operation's buffer of `bytes` from `offset` on, and holds what the real rank before sent
  /// where that is at most `hops` back.
  void make(uint32_t hops, uint64_t bytes, uint64_t offset, std::span<uint8_t> out) const;

  /// Elements of `data`, from `first` on, that are not the sum which starts with rank `start`, bit
  /// by bit. `seeds`: of each rank's contribution.
  uint64_t wrong_sums(uint32_t start, uint64_t first, std::span<const float> data,
                      std::span<const uint64_t> seeds) const;
  /// Elements that are not the contribution of `rank`, which begins with them.
  static uint64_t wrong_copies(uint32_t rank, std::span<const float> data, uint64_t seed);

 private:
  void add_chain(uint32_t hops, uint64_t first, std::span<uint8_t> out) const;
};

}  // namespace understudy
