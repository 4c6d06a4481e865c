// How NCCL's credits lie in memory, by release (nccl-wire 3.1, 3.2, 3.5).
#pragma once

#include <cstdint>

namespace understudy {

/// How a release of NCCL lays out what the data phase needs; ctrl/peers/nccl/net_ib_layout.cc has
/// all of them. All fields of an entry are little-endian.
struct CtsLayout {
  static constexpr uint32_t kEntries = 8;  ///< of a slot: receives that share one credit
  uint32_t slots = 256;                    ///< MAX_REQUESTS
  uint32_t entry_bytes = 64;
  uint8_t size_bytes = 8;  ///< of the capacity, which follows the address at 0
  uint8_t rkey_at = 16;    ///< of the first device
  uint8_t requests_at = 32, tag_at = 36, index_at = 40;
  bool big_endian_immediate = false;
  /// Where the sender writes the sizes of several receives in one, of a slot in the receiver's
  /// memory; 0: the immediate is a mask of those that are not empty (2.18).
  uint32_t sizes_stride = 32;
  /// The immediate of several receives in one: the first one's size, else 0.
  bool immediate_of_first = false;

  constexpr uint32_t stride() const { return entry_bytes * kEntries; }
  constexpr uint32_t fifo_bytes() const { return slots * stride(); }
  /// As the field ImmDt stands, read big-endian.
  constexpr uint32_t immediate(uint32_t size) const {
    return big_endian_immediate ? size : __builtin_bswap32(size);
  }
  bool operator==(const CtsLayout&) const = default;
};

}  // namespace understudy
