#include "tools/nccl_decode/frames.h"

#include <algorithm>

namespace understudy::nccl_decode {

std::optional<Handshake> handshake_of(Bytes opener) {
  if (opener.size() < kHandshakeBytes) return std::nullopt;
  const Handshake hello{u64_at(opener, 0), i32_at(opener, 8)};
  if (hello.type < 1 || hello.type > 5) return std::nullopt;
  return hello;
}

Frames frames_of(Bytes side, uint64_t begin) {
  constexpr int32_t kMostBytes = 64 << 20;
  Frames out;
  while (begin + 4 <= side.size()) {
    const int32_t size = i32_at(side, begin);
    if (size < 0 || size > kMostBytes) break;
    const Bytes rest = side.subspan(begin + 4);
    const auto bytes = static_cast<uint32_t>(size);
    out.frames.push_back({begin, rest.first(std::min<size_t>(bytes, rest.size())), bytes});
    begin = out.frames.back().end();
    if (!out.frames.back().whole()) break;
  }
  out.rest = begin;
  return out;
}

}  // namespace understudy::nccl_decode
