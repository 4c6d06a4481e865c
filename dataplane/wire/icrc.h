// Invariant CRC of RoCEv2 (rule A2): CRC-32 of Ethernet over 8 bytes of ones (the absent LRH), the
// IP and UDP headers with their mutable fields set to ones, and everything up to the ICRC itself.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace understudy {

/// ICRC of a packet from the first byte of its IP header up to, not including, the ICRC.
/// `ip` must hold a whole IPv4 (IHL 5) or IPv6 header, UDP and BTH. The result stands on the wire
/// least significant byte first.
uint32_t icrc(std::span<const uint8_t> ip);

/// Takes ICRCs of packets that come, and knows the headers of those that came before: packets of
/// one queue pair and opcode differ in their PSN, behind which it goes on where the headers are the
/// same. IPv4 only; others it takes as icrc() does. Not for two threads at once.
class IcrcMemory {
 public:
  /// As icrc(), of a packet to this queue pair.
  uint32_t icrc(std::span<const uint8_t> ip, uint32_t qpn, uint8_t opcode);

 private:
  static constexpr size_t kHeads = 64;
  using Words = std::array<uint64_t, 6>;  ///< from the LRH's place to the end of the BTH
  struct Head {
    Words masked;         ///< with what the ICRC leaves out set to ones
    uint32_t before_psn;  ///< its CRC up to there
  };
  std::array<Head, kHeads> heads_{};
};

/// The CRC of a packet, whose IP header `ip` begins with, up to the last word of its BTH, which has
/// the PSN. What becomes of such a CRC with the bytes that follow, in the end the ICRC:
uint32_t icrc_before_psn(const uint8_t* ip);
uint32_t icrc_go_on(uint32_t crc, std::span<const uint8_t> bytes);
/// The same where they are zeros, up to 16,383 of them. What these do to the CRC is known (zlib's
/// crc32_combine() for the idea), so that it costs the same however many they are.
uint32_t icrc_after_zeros(uint32_t crc, uint32_t zeros);

/// Reads the little-endian ICRC at `at`.
inline uint32_t load_icrc(const uint8_t* at) {
  return static_cast<uint32_t>(at[0]) | static_cast<uint32_t>(at[1]) << 8 |
         static_cast<uint32_t>(at[2]) << 16 | static_cast<uint32_t>(at[3]) << 24;
}
inline void store_icrc(uint8_t* at, uint32_t v) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<uint8_t>(v >> (8 * i));
}

}  // namespace understudy
