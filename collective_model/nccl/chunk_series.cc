#include "collective_model/nccl/chunk_series.h"

#include <algorithm>

namespace understudy {

ChunkSeries::ChunkSeries(ChannelPart part, uint32_t chunk_bytes, uint32_t per_loop,
                         uint64_t tail_align)
    : part_(part), chunk_bytes_(chunk_bytes), per_loop_(per_loop) {
  const uint64_t loop_bytes = uint64_t{per_loop} * chunk_bytes;
  loops_ = static_cast<uint32_t>(ceil_div(part.bytes, loop_bytes));
  tail_chunk_ = chunk_bytes;
  if (loops_ == 0 || per_loop == 1) return;
  const uint64_t rest = part.bytes - (loops_ - 1) * loop_bytes;
  if (rest == loop_bytes) return;
  tail_chunk_ = static_cast<uint32_t>(round_up(ceil_div(rest, per_loop), tail_align));
}

ChunkSeries::ChunkSeries(uint64_t bytes, uint32_t chunk_bytes, uint32_t per_loop, Stride stride)
    : part_{0, bytes},
      chunk_bytes_(chunk_bytes),
      per_loop_(per_loop),
      strided_(true),
      stride_(stride) {
  const uint64_t all = uint64_t{stride.channels} * per_loop;
  const uint64_t loop_bytes = all * chunk_bytes;
  loops_ = static_cast<uint32_t>(ceil_div(bytes, loop_bytes));
  tail_chunk_ = chunk_bytes;
  if (loops_ == 0 || (stride.once && loops_ > 1)) return;
  const uint64_t rest = bytes - (loops_ - 1) * loop_bytes;
  const uint64_t share = round_up(ceil_div(rest, all), stride.round);
  if (stride.once && rest == loop_bytes) return;
  tail_chunk_ = static_cast<uint32_t>(stride.once ? share : std::min<uint64_t>(share, chunk_bytes));
}

}  // namespace understudy
