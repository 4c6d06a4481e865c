#include "tools/soft_nic/device/receive_queue.h"

#include <cerrno>

namespace understudy::soft_nic {

uint64_t Receive::length() const {
  uint64_t bytes = 0;
  for (const ibv_sge& piece : pieces) bytes += piece.length;
  return bytes;
}

ReceiveQueue::ReceiveQueue(uint32_t entries, uint32_t pieces) : ring_(entries), pieces_(pieces) {
  for (Receive& receive : ring_) receive.pieces.reserve(pieces);
}

int ReceiveQueue::post(uint64_t id, std::span<const ibv_sge> pieces) {
  if (pieces.size() > pieces_) return EINVAL;
  if (count_ == ring_.size()) return ENOMEM;
  Receive& receive = ring_[(first_ + count_) % ring_.size()];
  receive.id = id;
  receive.pieces.assign(pieces.begin(), pieces.end());
  ++count_;
  return 0;
}

bool ReceiveQueue::take(Receive& out) {
  if (count_ == 0) return false;
  std::swap(out, ring_[first_]);  // both keep the room that they have
  first_ = (first_ + 1) % ring_.size();
  --count_;
  return true;
}

}  // namespace understudy::soft_nic
