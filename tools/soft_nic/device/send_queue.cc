#include "tools/soft_nic/device/send_queue.h"

#include <algorithm>
#include <cstring>

namespace understudy::soft_nic {

SendQueue::SendQueue(uint32_t entries, uint32_t pieces, uint32_t inline_bytes) : ring_(entries) {
  for (Work& work : ring_) {
    work.pieces.reserve(std::max<uint32_t>(pieces, 1));
    work.copied.reserve(inline_bytes);
  }
}

Work& SendQueue::push() {
  Work& work = ring_[(first_ + count_++) % ring_.size()];
  work.pieces.clear();
  work.copied.clear();
  work.begun = false;
  work.refused = IBV_WC_SUCCESS;
  work.length = 0;
  return work;
}

void SendQueue::pop() {
  first_ = first_ + 1 == ring_.size() ? 0 : first_ + 1;
  --count_;
}

bool SendQueue::uses(uint32_t region) const {
  for (size_t i = 0; i < count_; ++i) {
    const Work& work = ring_[(first_ + i) % ring_.size()];
    const bool has = std::any_of(work.pieces.begin(), work.pieces.end(),
                                 [&](const LocalPiece& p) { return p.region == region; });
    if (has) return true;
  }
  return false;
}

void SendQueue::fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const {
  for (const LocalPiece& piece : ring_[cookie].pieces) {
    if (offset >= piece.length) {
      offset -= piece.length;
      continue;
    }
    const size_t part = std::min<size_t>(piece.length - offset, out.size());
    std::memcpy(out.data(), piece.bytes + offset, part);
    out = out.subspan(part);
    if (out.empty()) return;
    offset = 0;
  }
}

void scatter(const Work& work) {
  size_t at = 0;
  for (const LocalPiece& piece : work.pieces) {
    if (piece.length != 0) std::memcpy(piece.bytes, work.copied.data() + at, piece.length);
    at += piece.length;
  }
}

}  // namespace understudy::soft_nic
