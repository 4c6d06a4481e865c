// What the schedules of rings and trees have in common: one channel of an operation.
#pragma once

#include <cstdint>

#include "collective_model/nccl/chunk_series.h"
#include "collective_model/schedule/schedule.h"

namespace understudy {

/// One channel of an operation: its chunks and how they travel.
struct Lane {
  uint32_t channel = 0;
  Chunking chunking;
  ChunkSeries chunks;
};

/// Bytes to which 2.18 and 2.19 round the chunk of a loop.
uint64_t stride_round(const Operation& operation);

/// Lane `index` of the cut; `per_loop` chunks make a loop.
Lane make_lane(const Communicator& communicator, const Operation& operation,
               const OperationCut& cut, uint32_t index, uint32_t per_loop);

/// A connection of `rank` on a lane; the number of its messages is left to the caller.
Connection lane_connection(const Communicator& communicator, const Lane& lane, uint32_t from,
                           uint32_t to, Direction direction);

/// Slice `slice` of a chunk.
Message slice_message(const Lane& lane, const Chunk& chunk, uint32_t slice, uint32_t element);

}  // namespace understudy
