// Little-endian numbers and socket addresses as NCCL's structs have them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/host.h"

namespace understudy {

/// ncclSocketAddress: a union of sockaddr, sockaddr_in and sockaddr_in6 (docs/nccl 1.1).
inline constexpr size_t kNcclAddressBytes = 28;

/// NCCL_SOCKET_MAGIC: of all of net_ib's listeners, in their handles at byte 32.
inline constexpr uint64_t kNcclNetMagic = 0x564ab9f2fc4b9d6c;

inline uint32_t nccl_u32(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at]) | static_cast<uint32_t>(bytes[at + 1]) << 8 |
         static_cast<uint32_t>(bytes[at + 2]) << 16 | static_cast<uint32_t>(bytes[at + 3]) << 24;
}
inline int32_t nccl_i32(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<int32_t>(nccl_u32(bytes, at));
}
inline uint64_t nccl_u64(std::span<const uint8_t> bytes, size_t at) {
  return nccl_u32(bytes, at) | static_cast<uint64_t>(nccl_u32(bytes, at + 4)) << 32;
}
inline void put_nccl_u32(std::span<uint8_t> bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
}
inline void put_nccl_i32(std::span<uint8_t> bytes, size_t at, int32_t value) {
  put_nccl_u32(bytes, at, static_cast<uint32_t>(value));
}
inline void put_nccl_u64(std::span<uint8_t> bytes, size_t at, uint64_t value) {
  for (size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

void put_nccl_address(std::span<uint8_t> bytes, size_t at, const SocketAddress& address);
/// Nothing for another family than IPv4 and IPv6, an unset address, a link-local one, port 0.
std::optional<SocketAddress> nccl_address(std::span<const uint8_t> bytes, size_t at);

}  // namespace understudy
