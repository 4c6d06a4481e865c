// NCCL's framing on bootstrap connections: the handshake, then frames of a 4-byte length and as
// many bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_decode {

struct Handshake {
  uint64_t magic = 0;
  int type = 0;
};

/// What a connection's opener says first.
std::optional<Handshake> handshake_of(Bytes opener);

struct Frame {
  uint64_t begin = 0;  ///< of its length
  Bytes payload;       ///< what has come of it
  uint32_t bytes = 0;  ///< what its length says
  bool whole() const { return payload.size() == bytes; }
  uint64_t end() const { return begin + 4 + payload.size(); }
};

struct Frames {
  std::vector<Frame> frames;
  uint64_t rest = 0;  ///< where bytes begin that are no frame, or no whole length yet
};

/// Frames from `begin` on. A length that NCCL would not send ends them.
Frames frames_of(Bytes side, uint64_t begin);

}  // namespace understudy::nccl_decode
