#include "tests/rigs/nccl_rank/verbs/data_connection.h"

#include <cstring>

namespace understudy::nccl_rank {

void DataConnection::begin(const Use& use) {
  // The step counter goes on over operations (docs/nccl 3.8).
  const uint64_t count = (link_.sends ? posted_ : granted_) - first_;
  first_step_ += count * use_.slice_steps;
  first_step_ = (first_step_ + use.chunk_steps - 1) / use.chunk_steps * use.chunk_steps;
  first_ += count;
  use_ = use;
  if (buffer_bytes_ >= kSteps * use.step_bytes) return;
  buffer_bytes_ = kSteps * use.step_bytes;
  make_buffer(buffer_bytes_);
}

bool LocalConnection::post(uint32_t bytes) {
  const uint64_t k = posted_;
  if (other_->granted_ <= k) return false;
  require(bytes <= other_->use_.capacity,
          "a message to " + rank_text(link_.peer) + " of this node is larger than the room for it");
  if (bytes > 0) std::memcpy(other_->slot(k), slot(k), bytes);
  other_->sizes_[k % kKept] = bytes;
  ++other_->arrived_;
  ++posted_;
  ++acknowledged_;
  return true;
}

LocalConnection& LocalConnections::end(uint32_t rank, const Link& link) {
  const auto [own, made] = ends_.try_emplace({rank, link}, link);
  if (made) {
    const Link back{link.channel, static_cast<int>(rank), link.index, !link.sends};
    const auto peer = static_cast<uint32_t>(link.peer);
    LocalConnection& other = ends_.try_emplace({peer, back}, back).first->second;
    own->second.join(other);
    other.join(own->second);
  }
  return own->second;
}

}  // namespace understudy::nccl_rank
