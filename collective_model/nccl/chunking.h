// How a protocol moves the data of an operation: chunks, slices, buffer steps and bytes on the
// wire. Source: NCCL's include/collectives.h, enqueue.cc (chunk sizes) and device/prims_*.h
// (slices, lines).
#pragma once

#include <algorithm>
#include <cstdint>

#include "collective_model/nccl/communicator.h"
#include "collective_model/nccl/operation.h"

namespace understudy {

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
constexpr uint64_t round_up(uint64_t a, uint64_t b) { return ceil_div(a, b) * b; }

/// Bytes on the wire of a message with `data` bytes: LL has 8 of data in a line of 16, LL128 1,920
/// in the 2,048 that one warp writes.
constexpr uint64_t wire_bytes(Protocol protocol, uint64_t data) {
  switch (protocol) {
    case Protocol::kLL:
      return ceil_div(data, 8) * 16;
    case Protocol::kLL128:
      return ceil_div(data, 1920) * 2048;
    default:
      return data;
  }
}

/// How one operation's chunks travel. A chunk is sent as slices() messages; each message takes
/// slice_steps of the connection's kBufferSteps buffer steps.
struct Chunking {
  static constexpr uint32_t kBufferSteps = 8;
  static constexpr uint32_t kSliceElements = 16;  ///< slices are groups of 16 elements

  Protocol protocol = Protocol::kSimple;
  uint32_t step_bytes = 512 * 1024;  ///< of the buffer
  uint32_t chunk_steps = 4;          ///< the step counter is rounded up to it before an operation
  uint32_t slice_steps = 2;
  uint32_t chunk_bytes = 2 * 1024 * 1024;  ///< data of a full chunk

  constexpr bool operator==(const Chunking&) const = default;

  constexpr uint32_t slices() const { return chunk_steps / slice_steps; }
  /// Messages in flight.
  constexpr uint32_t window() const { return kBufferSteps / slice_steps; }
  /// Bytes that a credit offers.
  constexpr uint32_t capacity() const { return step_bytes * slice_steps; }
  /// Data of the first slices of a chunk of `bytes` of elements of `element` bytes: an equal share,
  /// but no less than 1/32 of the capacity. What remains is the next slice's, at last nothing.
  constexpr uint32_t slice_bytes(uint32_t bytes, uint32_t element) const {
    if (slices() == 1) return bytes;
    const uint32_t group = kSliceElements * element;
    const uint32_t share = (bytes + group * slices() - 1) / (group * slices()) * group;
    return std::min(bytes, std::max(share, capacity() / 32 / element * element));
  }
};

/// The chunking of `operation`; `bytes` is what the chunk size is tuned to: those of the channel's
/// part times the ranks (all-gather, reduce-scatter), since 2.22, else those of the operation on
/// `channels` channels.
Chunking chunking_of(const Communicator& communicator, const Operation& operation, uint64_t bytes,
                     uint32_t channels);

}  // namespace understudy
