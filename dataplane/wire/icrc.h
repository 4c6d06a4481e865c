// Invariant CRC of RoCEv2 (rule A2): CRC-32 of Ethernet over 8 bytes of ones (the absent LRH), the
// IP and UDP headers with their mutable fields set to ones, and everything up to the ICRC itself.
#pragma once

#include <cstdint>
#include <span>

namespace understudy {

/// ICRC of a packet from the first byte of its IP header up to, not including, the ICRC.
/// `ip` must hold a whole IPv4 (IHL 5) or IPv6 header, UDP and BTH. The result stands on the wire
/// least significant byte first.
uint32_t icrc(std::span<const uint8_t> ip);

/// Reads the little-endian ICRC at `at`.
inline uint32_t load_icrc(const uint8_t* at) {
  return static_cast<uint32_t>(at[0]) | static_cast<uint32_t>(at[1]) << 8 |
         static_cast<uint32_t>(at[2]) << 16 | static_cast<uint32_t>(at[3]) << 24;
}
inline void store_icrc(uint8_t* at, uint32_t v) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<uint8_t>(v >> (8 * i));
}

}  // namespace understudy
