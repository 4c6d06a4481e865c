#include "collective_model/ring_schedule.h"

#include <algorithm>

namespace understudy {
namespace {

constexpr uint64_t kMinTraffic = 16 * 1024;  // per channel and per cell, bytes moved
constexpr uint64_t kTrafficPerByte = 2;      // an all-reduce moves every byte twice
constexpr uint64_t kCell = kMinTraffic / kTrafficPerByte;
constexpr uint32_t kChunkAlign = 16;          // bytes; of the last loop's chunk
constexpr uint32_t kSliceAlignElements = 16;  // elements, whatever their size

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
constexpr uint64_t round_up(uint64_t a, uint64_t b) { return ceil_div(a, b) * b; }

}  // namespace

std::vector<ChannelPart> cut_all_reduce(uint64_t bytes, uint32_t element_size,
                                        uint32_t max_channels) {
  const uint64_t cell = kCell / element_size * element_size;
  const uint64_t cells = ceil_div(bytes, cell);
  std::vector<uint64_t> share;  // cells of each channel
  if (max_channels == 1) {
    share.assign(cells == 0 ? 0 : 1, cells);
  } else if (cells > 0) {
    const uint64_t traffic = std::max(kMinTraffic, bytes * kTrafficPerByte / max_channels);
    const uint64_t per_channel = std::min(cells, ceil_div(traffic, kMinTraffic));
    for (uint64_t left = cells; left > 0; left -= share.back()) {
      share.push_back(std::min(left, per_channel));
    }
    if (share.size() > max_channels) {
      // The traffic per channel was rounded down. NCCL keeps the first channel, spreads the rest
      // evenly and gives what does not divide to the last one.
      const uint64_t rest = cells - per_channel;
      const uint64_t others = max_channels - 1;
      share.assign(max_channels, rest / others);
      share.front() = per_channel;
      share.back() += rest % others;
    }
  }
  std::vector<ChannelPart> parts;
  uint64_t offset = 0;
  for (const uint64_t n : share) {
    const uint64_t size = std::min(n * cell, bytes - offset);
    parts.push_back({offset, size});
    offset += size;
  }
  return parts;
}

RingSchedule::RingSchedule(uint32_t ranks, ChannelPart part, uint32_t element_size)
    : ranks_(ranks),
      part_(part),
      element_size_(element_size),
      per_loop_(2 * (ranks - 1) * kSlices) {
  const uint64_t loop_bytes = uint64_t{ranks} * kChunkBytes;
  loops_ = static_cast<uint32_t>(ceil_div(part.bytes, loop_bytes));
  if (loops_ == 0) return;
  const uint64_t rest = part.bytes - (loops_ - 1) * loop_bytes;
  tail_chunk_ = static_cast<uint32_t>(round_up(ceil_div(rest, ranks), kChunkAlign));
}

uint32_t RingSchedule::first_slice(uint32_t bytes) const {
  // Half of the chunk in whole groups of 16 elements, and never under 32 KiB.
  const uint32_t group = kSliceAlignElements * element_size_;
  const uint32_t half = (bytes + group * kSlices - 1) / (group * kSlices) * group;
  return std::min(bytes, std::max(half, kSmallestSlice));
}

RingMessage RingSchedule::sent(uint32_t rank, uint32_t m) const {
  RingMessage message;
  message.loop = m / per_loop_;
  const uint32_t in_loop = m - message.loop * per_loop_;
  message.step = in_loop / kSlices;
  message.slice = in_loop % kSlices;
  // Step j of rank x carries chunk (x + n-1-j) mod n; j < 2n keeps the sum positive.
  uint32_t chunk = rank + 2 * ranks_ - 1 - message.step;
  if (chunk >= 2 * ranks_) chunk -= 2 * ranks_;
  if (chunk >= ranks_) chunk -= ranks_;
  message.chunk = chunk;
  message.action = message.step == 0       ? RingAction::kOwn
                   : message.step < ranks_ ? RingAction::kReduce
                                           : RingAction::kCopy;

  const uint64_t loop_offset = uint64_t{message.loop} * ranks_ * kChunkBytes;
  const uint64_t left = part_.bytes - loop_offset;
  const uint64_t full = chunk_bytes(message.loop);
  const uint64_t begin = std::min(chunk * full, left);
  const uint32_t bytes = static_cast<uint32_t>(std::min(full, left - begin));
  const uint32_t first = first_slice(bytes);
  message.size = message.slice == 0 ? first : bytes - first;
  message.offset = part_.offset + loop_offset + begin + (message.slice == 0 ? 0 : first);
  return message;
}

}  // namespace understudy
