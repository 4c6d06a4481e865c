// How a ring all-reduce is cut: channels' parts, loops, chunks, slices (docs/nccl 3.9, 3.10; Simple
// protocol, NCCL 2.22 and later). Written from the description alone and on purpose not shared with
// the emulator's own model, so that the two check each other. Everything is counted in elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ctrl/peers/ring/ring_messages.h"

namespace understudy {

struct ElementRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

class RankCutting {
 public:
  explicit RankCutting(const RingJobMessage& job) : job_(job) {}

  unsigned slices_per_chunk() const { return job_.cutting.chunk_steps / job_.cutting.slice_steps; }

  /// What each channel reduces of an operation on `count` elements: whole cells of 8 KiB, equally
  /// many of them, the last part takes the rest. Later channels may have nothing.
  std::vector<ElementRange> parts(uint64_t count) const {
    // Traffic per byte of an all-reduce is 2 and no channel gets less than 16 KiB of traffic.
    constexpr uint64_t kCell = 8192 / kElement;
    constexpr uint64_t kMinTraffic = 16384;
    const uint64_t traffic = std::max(kMinTraffic, count * kElement * 2 / job_.channels);
    const uint64_t cells_each = ceil_div(traffic, kMinTraffic);
    std::vector<ElementRange> out(job_.channels);
    uint64_t next = 0;
    for (uint32_t c = 0; c < job_.channels; ++c) {
      const bool last = c + 1 == job_.channels;
      const uint64_t share = last ? count - next : std::min(count - next, cells_each * kCell);
      out[c] = {next, share};
      next += share;
    }
    return out;
  }

  uint64_t loops(const ElementRange& part) const {
    return ceil_div(part.count, job_.ranks * full_chunk());
  }

  /// Messages of one operation on one link of the channel, in each direction.
  uint64_t messages(const ElementRange& part) const {
    return loops(part) * 2 * (job_.ranks - 1) * slices_per_chunk();
  }

  /// Chunk `k` (0..ranks-1) of a loop; empty where the last loop's rest does not reach it.
  ElementRange chunk(const ElementRange& part, uint64_t loop, uint32_t k) const {
    const uint64_t begin = loop * job_.ranks * full_chunk();
    const uint64_t rest = part.count - begin;
    uint64_t size = full_chunk();
    if (rest < job_.ranks * size) size = ceil_div(ceil_div(rest, job_.ranks), kLine) * kLine;
    const uint64_t at = std::min(rest, k * size);
    return {part.first + begin + at, std::min(size, rest - at)};
  }

  /// Slice `s` of a chunk: what one message carries; later slices may be empty.
  ElementRange slice(const ElementRange& chunk, unsigned s) const {
    const uint64_t size =
        std::max<uint64_t>(ceil_div(chunk.count, kGrain * slices_per_chunk()) * kGrain,
                           job_.cutting.min_slice_bytes / kElement);
    const uint64_t at = std::min(chunk.count, s * size);
    return {chunk.first + at, std::min(size, chunk.count - at)};
  }

  static constexpr uint64_t kElement = sizeof(float);

 private:
  static constexpr uint64_t kLine = 16 / kElement;  ///< chunks of the last loop: whole 16 bytes
  static constexpr uint64_t kGrain = 16;            ///< slices: whole 16 elements

  static constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
  uint64_t full_chunk() const {
    return uint64_t{job_.cutting.step_bytes} * job_.cutting.chunk_steps / kElement;
  }

  RingJobMessage job_;
};

}  // namespace understudy
