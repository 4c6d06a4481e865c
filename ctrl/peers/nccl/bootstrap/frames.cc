#include "ctrl/peers/nccl/bootstrap/frames.h"

#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/bytes.h"

namespace understudy {

void append_handshake(std::vector<uint8_t>& to, uint64_t magic) {
  const size_t at = to.size();
  to.resize(at + kNcclHandshakeBytes);
  put_nccl_u64(to, at, magic);
  put_nccl_u32(to, at + 8, kNcclBootstrapType);
}

void append_frame_size(std::vector<uint8_t>& to, uint32_t size) {
  const size_t at = to.size();
  to.resize(at + 4);
  put_nccl_u32(to, at, size);
}

void append_frame(std::vector<uint8_t>& to, std::span<const uint8_t> payload) {
  append_frame_size(to, static_cast<uint32_t>(payload.size()));
  to.insert(to.end(), payload.begin(), payload.end());
}

bool FrameReader::take(size_t need, std::span<const uint8_t>& bytes) {
  if (held_.empty() && input_.size() >= need) {
    bytes = input_.first(need);
    input_ = input_.subspan(need);
    return true;
  }
  const size_t more = std::min(need - held_.size(), input_.size());
  held_.insert(held_.end(), input_.begin(), input_.begin() + static_cast<ptrdiff_t>(more));
  input_ = input_.subspan(more);
  if (held_.size() < need) return false;
  given_.swap(held_);
  held_.clear();
  bytes = given_;
  return true;
}

FrameReader::Event FrameReader::next() {
  std::span<const uint8_t> bytes;
  switch (wants_) {
    case kHandshake:
      if (!take(kNcclHandshakeBytes, bytes)) return {};
      wants_ = kSize;
      return {kHandshake, nccl_u64(bytes, 0), nccl_u32(bytes, 8), 0, {}};
    case kSize: {
      if (!take(4, bytes)) return {};
      size_ = nccl_u32(bytes, 0);
      wants_ = size_ > kNcclLargestFrame ? kAbsurd : kPayload;
      return {wants_ == kAbsurd ? kAbsurd : kSize, 0, 0, static_cast<int32_t>(size_), {}};
    }
    case kPayload:
      if (!take(size_, bytes)) return {};
      wants_ = kSize;
      return {kPayload, 0, 0, static_cast<int32_t>(size_), bytes};
    default:
      return {};
  }
}

}  // namespace understudy
