// NCCL's ring all-reduce with the Simple protocol on one channel, as 2.22 and later do it: loops,
// steps, chunks and slices (facts: docs/nccl 3.7-3.11). Every query is O(1): a schedule of any
// size is a handful of integers.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/nccl/channel_cut.h"
#include "collective_model/nccl/chunk_series.h"
#include "collective_model/nccl/chunking.h"

namespace understudy {

/// What the sender does to produce a message.
enum class RingAction : uint8_t {
  kOwn,     ///< its own data
  kReduce,  ///< what it received as the previous step, plus its own data
  kCopy,    ///< what it received as the previous step, which is a final result
};

/// One message of the ring: what a rank sends to its successor.
struct RingMessage {
  uint32_t loop = 0;
  uint32_t step = 0;    ///< 0 .. 2n-3 within the loop
  uint32_t slice = 0;   ///< 0 or 1 within the step
  uint32_t chunk = 0;   ///< 0 .. n-1 within the loop
  uint32_t size = 0;    ///< bytes; 0 is a real message without payload
  uint64_t offset = 0;  ///< of its first byte in the operation's buffer
  RingAction action = RingAction::kOwn;
};

/// The chunk that rank (ring position) `x` of `ranks` sends in step `step` of an all-reduce.
constexpr uint32_t all_reduce_chunk(uint32_t ranks, uint32_t x, uint32_t step) {
  // (x + n-1-step) mod n; step < 2n keeps the sum positive.
  uint32_t chunk = x + 2 * ranks - 1 - step;
  if (chunk >= 2 * ranks) chunk -= 2 * ranks;
  if (chunk >= ranks) chunk -= ranks;
  return chunk;
}

/// The messages of one channel of one ring all-reduce over `ranks` >= 2 ranks. Messages of every
/// rank are numbered alike: m = (loop * steps() + step) * kSlices + slice, in the order in which
/// they are sent. What rank x receives as message m is what rank x-1 sends as message m.
class RingSchedule {
 public:
  static constexpr Chunking kChunking{};
  static constexpr uint32_t kSlices = kChunking.slices();
  static constexpr uint32_t kWindow = kChunking.window();          ///< messages in flight
  static constexpr uint32_t kChunkBytes = kChunking.chunk_bytes;   ///< 4 steps of a 4 MiB buffer
  static constexpr uint32_t kMessageBytes = kChunking.capacity();  ///< the largest message
  static constexpr uint32_t kSmallestSlice = kMessageBytes / 32;   ///< of chunks that have it
  static constexpr uint32_t kChunkAlign = 16;                      ///< of the last loop's chunk

  RingSchedule(uint32_t ranks, ChannelPart part, uint32_t element_size)
      : ranks_(ranks),
        part_(part),
        element_size_(element_size),
        per_loop_(2 * (ranks - 1) * kSlices),
        chunks_(part, kChunkBytes, ranks, kChunkAlign) {}

  uint32_t ranks() const { return ranks_; }
  ChannelPart part() const { return part_; }
  uint32_t steps() const { return 2 * (ranks_ - 1); }
  uint32_t loops() const { return chunks_.loops(); }
  uint32_t messages_per_loop() const { return per_loop_; }
  /// Messages that every rank sends, and receives.
  uint32_t messages() const { return loops() * per_loop_; }
  /// Bytes of a chunk of this loop (the last chunks of the last loop may hold less).
  uint32_t chunk_bytes(uint32_t loop) const { return chunks_.chunk_bytes(loop); }

  /// What rank `rank` sends as message `m` < messages().
  RingMessage sent(uint32_t rank, uint32_t m) const;
  uint32_t size(uint32_t rank, uint32_t m) const { return sent(rank, m).size; }
  /// Size of the first slice of a chunk of `bytes`.
  uint32_t first_slice(uint32_t bytes) const { return kChunking.slice_bytes(bytes, element_size_); }

 private:
  uint32_t ranks_;
  ChannelPart part_;
  uint32_t element_size_;
  uint32_t per_loop_ = 0;
  ChunkSeries chunks_;
};

}  // namespace understudy
