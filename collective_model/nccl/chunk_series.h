// The chunks of one channel's part of an operation: loops, and in each as many chunks as the
// algorithm goes through at a time (an all-reduce ring: one per rank; all others: one).
#pragma once

#include <algorithm>
#include <cstdint>

#include "collective_model/nccl/channel_cut.h"
#include "collective_model/nccl/chunking.h"

namespace understudy {

struct Chunk {
  uint64_t offset = 0;  ///< in the operation's buffer, or in one rank's part of it
  uint32_t bytes = 0;   ///< 0 where the buffer has ended
  constexpr bool operator==(const Chunk&) const = default;
};

/// Every query is O(1).
class ChunkSeries {
 public:
  ChunkSeries() = default;
  /// A contiguous part (since 2.20). The last loop's chunks are cut again in `per_loop` > 1 equal
  /// parts of whole `tail_align` bytes.
  ChunkSeries(ChannelPart part, uint32_t chunk_bytes, uint32_t per_loop, uint64_t tail_align);

  /// How 2.18 and 2.19 stride: channel `index` of `channels` takes its chunks of every loop over
  /// all of them.
  struct Stride {
    uint32_t index = 0;
    uint32_t channels = 1;
    uint64_t round = 1;     ///< bytes: an equal part of what is left is rounded up to them
    bool once = false;      ///< only in an operation of one loop (trees), and then without limit
    bool by_chunk = false;  ///< chunk k of all channels lies together, not all chunks of a channel
  };
  ChunkSeries(uint64_t bytes, uint32_t chunk_bytes, uint32_t per_loop, Stride stride);

  uint32_t loops() const { return loops_; }
  uint32_t per_loop() const { return per_loop_; }
  /// Bytes of a whole chunk of this loop.
  uint32_t chunk_bytes(uint32_t loop) const {
    return loop + 1 == loops_ ? tail_chunk_ : chunk_bytes_;
  }
  Chunk chunk(uint32_t loop, uint32_t k) const {
    const uint64_t full = chunk_bytes(loop);
    uint64_t place = k;
    uint64_t loop_offset = uint64_t{loop} * per_loop_ * chunk_bytes_;
    if (strided_) {
      loop_offset *= stride_.channels;
      place = stride_.by_chunk ? uint64_t{k} * stride_.channels + stride_.index
                               : uint64_t{stride_.index} * per_loop_ + k;
    }
    const uint64_t left = part_.bytes - loop_offset;
    const uint64_t begin = std::min(place * full, left);
    return {part_.offset + loop_offset + begin,
            static_cast<uint32_t>(std::min(full, left - begin))};
  }

 private:
  ChannelPart part_;
  uint32_t chunk_bytes_ = 1;
  uint32_t per_loop_ = 1;
  uint32_t loops_ = 0;
  uint32_t tail_chunk_ = 0;
  bool strided_ = false;
  Stride stride_;
};

}  // namespace understudy
