#include "dataplane/wire/icrc.h"

#include <isa-l/crc.h>

#include <array>
#include <cstring>

#include "dataplane/wire/headers.h"

namespace understudy {

namespace {

/// Sixteen bytes that the compiler moves at once: bytes stored one by one would have to reach the
/// cache before the CRC's wide loads can have them.
using Block = uint8_t __attribute__((vector_size(16)));

constexpr size_t kV4Head = sizeof(Ipv4Header) + sizeof(UdpHeader) + sizeof(Bth);
constexpr size_t kV6Head = sizeof(Ipv6Header) + sizeof(UdpHeader) + sizeof(Bth);
constexpr size_t kLrh = 8;

/// What is ones in the CRC: the LRH that is not there, then the fields that change on the way.
constexpr std::array<uint8_t, kLrh + kV4Head> v4_mask() {
  std::array<uint8_t, kLrh + kV4Head> m{};
  for (size_t i = 0; i < kLrh; ++i) m[i] = 0xff;
  constexpr size_t udp = kLrh + sizeof(Ipv4Header), bth = udp + sizeof(UdpHeader);
  m[kLrh + 1] = 0xff;                  // DSCP and ECN
  m[kLrh + 8] = 0xff;                  // TTL
  m[kLrh + 10] = m[kLrh + 11] = 0xff;  // header checksum
  m[udp + 6] = m[udp + 7] = 0xff;      // UDP checksum
  m[bth + 4] = 0xff;                   // FECN, BECN, reserved
  return m;
}

constexpr std::array<uint8_t, kLrh + kV6Head> v6_mask() {
  std::array<uint8_t, kLrh + kV6Head> m{};
  for (size_t i = 0; i < kLrh; ++i) m[i] = 0xff;
  constexpr size_t udp = kLrh + sizeof(Ipv6Header), bth = udp + sizeof(UdpHeader);
  m[kLrh] = 0x0f;                                  // traffic class ...
  m[kLrh + 1] = m[kLrh + 2] = m[kLrh + 3] = 0xff;  // ... and flow label
  m[kLrh + 7] = 0xff;                              // hop limit
  m[udp + 6] = m[udp + 7] = 0xff;                  // UDP checksum
  m[bth + 4] = 0xff;                               // FECN, BECN, reserved
  return m;
}

constexpr auto kV4Mask = v4_mask();
constexpr auto kV6Mask = v6_mask();

/// The CRC after the masked headers, `kLrh` bytes of which stand in front of `ip`. They are copied,
/// so that the mask never writes into a packet that others may read.
template <size_t kBytes>
uint32_t crc_of_head(const uint8_t* ip, const std::array<uint8_t, kBytes>& mask) {
  alignas(16) uint8_t head[kBytes];
  size_t at = 0;
  const auto put = [&](const Block& bytes) {
    Block ones;
    std::memcpy(&ones, mask.data() + at, sizeof ones);
    const Block masked = bytes | ones;
    std::memcpy(head + at, &masked, sizeof masked);
  };
  Block first{};
  std::memcpy(reinterpret_cast<uint8_t*>(&first) + kLrh, ip, sizeof first - kLrh);
  put(first);
  for (at = sizeof(Block); at + sizeof(Block) <= kBytes; at += sizeof(Block)) {
    Block bytes;
    std::memcpy(&bytes, ip + at - kLrh, sizeof bytes);
    put(bytes);
  }
  for (; at < kBytes; ++at) head[at] = ip[at - kLrh] | mask[at];
  return crc32_gzip_refl(0, head, kBytes);
}

}  // namespace

uint32_t icrc(std::span<const uint8_t> ip) {
  const bool v4 = (ip[0] >> 4) == 4;
  const size_t head = v4 ? kV4Head : kV6Head;
  const uint32_t crc = v4 ? crc_of_head(ip.data(), kV4Mask) : crc_of_head(ip.data(), kV6Mask);
  return crc32_gzip_refl(crc, ip.data() + head, ip.size() - head);
}

}  // namespace understudy
