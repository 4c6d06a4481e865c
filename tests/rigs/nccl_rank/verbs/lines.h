// LL and LL128 on the wire: lines of data with flags, by which the receiver's kernel knows that
// they have come (docs/nccl 3.7; source: device/prims_ll.h, prims_ll128.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collective_model/nccl/operation.h"

namespace understudy::nccl_rank {

/// Calls `flag` with each flag's place in a message of `bytes`, and its size.
template <typename F>
void for_each_flag(Protocol protocol, uint32_t bytes, F flag) {
  if (protocol == Protocol::kLL) {
    for (uint32_t at = 0; at + 16 <= bytes; at += 16) {
      flag(at + 4, 4U);
      flag(at + 12, 4U);
    }
  } else if (protocol == Protocol::kLL128) {
    for (uint32_t at = 0; at + 128 <= bytes; at += 128) flag(at + 120, 8U);
  }
}

/// Of a message at step `step` of its connection.
inline void write_flags(Protocol protocol, uint64_t step, std::byte* message, uint32_t bytes) {
  const uint64_t value = step + 1;
  for_each_flag(protocol, bytes,
                [&](uint32_t at, uint32_t size) { std::memcpy(message + at, &value, size); });
}

inline bool flags_are_right(Protocol protocol, uint64_t step, const std::byte* message,
                            uint32_t bytes) {
  const uint64_t value = step + 1;
  bool right = true;
  for_each_flag(protocol, bytes, [&](uint32_t at, uint32_t size) {
    right = right && std::memcmp(message + at, &value, size) == 0;
  });
  return right;
}

}  // namespace understudy::nccl_rank
