// Room collective_model: what a collective sends, when, and how long it takes. No packets, no I/O.
//
// This file: NCCL's ring all-reduce with the Simple protocol, cut into channels, loops, chunks,
// steps and slices (facts: `nccl-wire.md` 3.7-3.11, read from NCCL 2.22-2.30). Every query is
// O(1): a schedule of any size is a handful of integers.
#pragma once

#include <cstdint>
#include <vector>

namespace understudy {

/// The bytes of an operation's buffer that one channel (one ring connection) works on.
struct ChannelPart {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  constexpr bool operator==(const ChannelPart&) const = default;
};

/// Cuts an all-reduce that runs alone over at most `max_channels` channels (rule "cbd" of
/// NCCL 2.22-2.30: cells of 8 KiB, no channel below 16 KiB of traffic). Small operations use fewer
/// channels. `bytes` is a multiple of `element_size` (1, 2, 4 or 8); 0 bytes need no channel.
std::vector<ChannelPart> cut_all_reduce(uint64_t bytes, uint32_t element_size,
                                        uint32_t max_channels);

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

/// The messages of one channel of one ring all-reduce over `ranks` >= 2 ranks. Messages of every
/// rank are numbered alike: m = (loop * steps() + step) * kSlices + slice, in the order in which
/// they are sent. What rank x receives as message m is what rank x-1 sends as message m.
class RingSchedule {
 public:
  static constexpr uint32_t kSlices = 2;                   ///< chunkSteps / sliceSteps
  static constexpr uint32_t kWindow = 4;                   ///< messages in flight: steps/sliceSteps
  static constexpr uint32_t kChunkBytes = 2u << 20;        ///< 4 of the 8 steps of a 4 MiB buffer
  static constexpr uint32_t kMessageBytes = 1u << 20;      ///< the largest message: 2 steps
  static constexpr uint32_t kSmallestSlice = 32u * 1024u;  ///< unless the chunk itself is smaller

  RingSchedule(uint32_t ranks, ChannelPart part, uint32_t element_size);

  uint32_t ranks() const { return ranks_; }
  ChannelPart part() const { return part_; }
  uint32_t steps() const { return 2 * (ranks_ - 1); }
  uint32_t loops() const { return loops_; }
  uint32_t messages_per_loop() const { return per_loop_; }
  /// Messages that every rank sends, and receives.
  uint32_t messages() const { return loops_ * per_loop_; }
  /// Bytes of a chunk of this loop (the last chunks of the last loop may hold less).
  uint32_t chunk_bytes(uint32_t loop) const {
    return loop + 1 == loops_ ? tail_chunk_ : kChunkBytes;
  }

  /// What rank `rank` sends as message `m` < messages().
  RingMessage sent(uint32_t rank, uint32_t m) const;
  uint32_t size(uint32_t rank, uint32_t m) const { return sent(rank, m).size; }
  /// Size of the first slice of a chunk of `bytes`.
  uint32_t first_slice(uint32_t bytes) const;

 private:
  uint32_t ranks_;
  ChannelPart part_;
  uint32_t element_size_;
  uint32_t loops_ = 0;
  uint32_t per_loop_ = 0;
  uint32_t tail_chunk_ = 0;
};

}  // namespace understudy
