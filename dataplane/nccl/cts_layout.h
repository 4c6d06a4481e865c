// How NCCL's credits lie in memory, by release (docs/nccl 3.1, 3.2, 3.5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/ids.h"

namespace understudy {

/// Keys of one memory, by the device through which it is reached: NCCL takes several ports of a NIC
/// for one device (merged devices).
struct DeviceRkeys {
  static constexpr size_t kMost = 8;  ///< NCCL_IB_MAX_DEVS_PER_NIC of 2.30
  // Most memory is reached through one device: its key stands for the list.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr DeviceRkeys(Rkey first = 0) : keys{first} {}
  constexpr DeviceRkeys(Rkey each, size_t devices) : keys{} {
    for (size_t d = 0; d < devices && d < kMost; ++d) keys[d] = each;
  }
  constexpr Rkey& operator[](size_t device) { return keys[device]; }
  constexpr Rkey operator[](size_t device) const { return keys[device]; }
  friend bool operator==(const DeviceRkeys&, const DeviceRkeys&) = default;
  std::array<Rkey, kMost> keys;
};

/// How a release of NCCL lays out what the data phase needs; ctrl/peers/nccl/transport/net_ib_layout.cc has
/// all of them. All fields of an entry are little-endian.
struct CtsLayout {
  static constexpr uint32_t kEntries = 8;  ///< of a slot: receives that share one credit
  uint32_t slots = 256;                    ///< MAX_REQUESTS
  uint32_t entry_bytes = 64;
  uint8_t size_bytes = 8;  ///< of the capacity, which follows the address at 0
  uint8_t rkey_at = 16;    ///< of the first device; the others' follow, up to requests_at
  uint8_t requests_at = 32, tag_at = 36, index_at = 40;
  bool big_endian_immediate = false;
  /// Where the sender writes the sizes of several receives in one, of a slot in the receiver's
  /// memory; 0: the immediate is a mask of those that are not empty (2.18).
  uint32_t sizes_stride = 32;
  /// The immediate of several receives in one: the first one's size, else 0.
  bool immediate_of_first = false;
  /// The queue pairs of a message begin one behind those of the message before, not behind all of
  /// them (2.29; source: net_ib/common.h, ncclIbCommBaseGetQpForRequest).
  bool turns_by_one = false;

  /// With keys of eight devices, as 2.30 has it.
  static constexpr CtsLayout with_eight_devices() {
    CtsLayout layout;
    layout.requests_at = 48;
    layout.tag_at = 52;
    layout.index_at = 56;
    return layout;
  }

  constexpr uint32_t stride() const { return entry_bytes * kEntries; }
  constexpr size_t devices() const {
    return static_cast<size_t>(requests_at - rkey_at) / sizeof(Rkey);
  }
  constexpr uint32_t fifo_bytes() const { return slots * stride(); }
  /// As the field ImmDt stands, read big-endian.
  constexpr uint32_t immediate(uint32_t size) const {
    return big_endian_immediate ? size : __builtin_bswap32(size);
  }
  bool operator==(const CtsLayout&) const = default;
};

}  // namespace understudy
