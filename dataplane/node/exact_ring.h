// Exact payload: the values of an all-reduce over a ring by the Simple protocol, which ranks really
// reduce. Ranks add their own contribution in ring order, received + own, as NCCL's kernels do.
#pragma once

#include <cstdint>
#include <span>

#include "collective_model/schedule.h"
#include "dataplane/base/pattern.h"

namespace understudy {

struct ExactRing {
  uint32_t ranks = 0;
  uint32_t real = 0;
  uint32_t emulated = 0;  ///< ranks between `real` and the real one before it, which may be itself
  uint64_t seed = 0;      ///< of the emulated ranks' contributions

  /// Step, 0 to 2 (ranks - 1) - 1 within its loop, of a connection's message `k`.
  uint32_t step(const Connection& c, uint64_t k) const {
    const uint64_t slices = c.chunk_steps / c.slice_steps;
    return static_cast<uint32_t>(k / slices % (2 * uint64_t{ranks - 1}));
  }
  /// Messages between the one that `real` receives and the one of the real rank before it that the
  /// environment makes it of: a step for each rank between them.
  uint64_t round(const Connection& c) const {
    return uint64_t{emulated} * (c.chunk_steps / c.slice_steps);
  }
  uint32_t next(uint32_t rank) const { return rank + 1 == ranks ? 0 : rank + 1; }
  uint32_t previous(uint32_t rank) const { return rank == 0 ? ranks - 1 : rank - 1; }

  /// What the chain of emulated ranks sends `real` in `step`: out holds elements from `first` on of
  /// what the real rank before sent `emulated` steps before, where `step` is at least that.
  void reduce(uint32_t step, uint64_t first, std::span<uint8_t> out) const;
  /// Elements of `data`, from `first` on, that are not the sum which starts with rank `start`, bit
  /// by bit. `seeds`: of each rank's contribution.
  uint64_t wrong(uint32_t start, uint64_t first, std::span<const float> data,
                 std::span<const uint64_t> seeds) const;
};

}  // namespace understudy
