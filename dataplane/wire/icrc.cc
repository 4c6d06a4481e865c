#include "dataplane/wire/icrc.h"

#include <isa-l/crc.h>

#include <array>
#include <bit>
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
constexpr size_t kPsnWord = 4;  // the BTH's last

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
uint32_t crc_of_head(const uint8_t* ip, const std::array<uint8_t, kBytes>& mask,
                     size_t bytes = kBytes) {
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
  return crc32_gzip_refl(0, head, bytes);
}

/// What zeros do to the CRC's state, which is linear: tables for 1, 2, 4 ... bytes of them.
class ZeroSteps {
 public:
  static constexpr unsigned kSteps = 14;

  ZeroSteps() {
    std::array<uint32_t, 32> images;  // of each bit of the state, after one byte
    for (unsigned bit = 0; bit < 32; ++bit) {
      const uint8_t zero = 0;
      images[bit] = ~crc32_gzip_refl(~(uint32_t{1} << bit), &zero, 1);
    }
    for (Table& table : tables_) {
      for (unsigned byte = 0; byte < 4; ++byte) {
        for (unsigned value = 0; value < 256; ++value) {
          uint32_t sum = 0;
          for (unsigned bit = 0; bit < 8; ++bit) {
            if ((value >> bit & 1) != 0) sum ^= images[8 * byte + bit];
          }
          table[byte][value] = sum;
        }
      }
      for (uint32_t& image : images) image = apply(table, image);  // and after twice as many
    }
  }
  uint32_t after_four(uint32_t state) const { return apply(tables_[2], state); }
  uint32_t after(uint32_t state, uint32_t zeros) const {
    for (unsigned step = 0; zeros != 0; ++step, zeros >>= 1) {
      if ((zeros & 1) != 0) state = apply(tables_[step], state);
    }
    return state;
  }

 private:
  using Table = std::array<std::array<uint32_t, 256>, 4>;

  static uint32_t apply(const Table& table, uint32_t state) {
    return table[0][state & 0xff] ^ table[1][state >> 8 & 0xff] ^ table[2][state >> 16 & 0xff] ^
           table[3][state >> 24];
  }
  std::array<Table, kSteps> tables_;
};
const ZeroSteps& steps() {
  static const ZeroSteps kSteps;
  return kSteps;
}

/// So few bytes, just written one by one, are summed sooner in words than by wide loads.
constexpr size_t kWordByWord = 8;

}  // namespace

uint32_t IcrcMemory::icrc(std::span<const uint8_t> ip, uint32_t qpn, uint8_t opcode) {
  static_assert(sizeof(Words) == kV4Mask.size());
  constexpr auto kMask = std::bit_cast<Words>(kV4Mask);
  if ((ip[0] >> 4) != 4) return understudy::icrc(ip);
  // Opcodes of a queue pair, and those of its neighbours, are far apart.
  Head& head = heads_[(qpn + opcode * size_t{11}) % kHeads];
  Words now;
  now[0] = kMask[0];  // the LRH that is not there
  uint64_t differs = 0;
  for (size_t i = 1; i < now.size(); ++i) {
    std::memcpy(&now[i], ip.data() + i * sizeof now[i] - kLrh, sizeof now[i]);
    now[i] |= kMask[i];
    const uint64_t apart = now[i] ^ head.masked[i];
    differs |= i + 1 < now.size() ? apart : static_cast<uint32_t>(apart);  // but for the PSN word
  }
  if (differs != 0) {
    head.masked = now;
    head.before_psn = crc32_gzip_refl(0, reinterpret_cast<const uint8_t*>(head.masked.data()),
                                      sizeof now - kPsnWord);
  }
  const auto psn_word = static_cast<uint32_t>(now.back() >> 32);
  const uint32_t crc = ~steps().after_four(~head.before_psn ^ psn_word);
  return crc32_gzip_refl(crc, ip.data() + kV4Head, ip.size() - kV4Head);
}

uint32_t icrc_before_psn(const uint8_t* ip) {
  const bool v4 = (ip[0] >> 4) == 4;
  return v4 ? crc_of_head(ip, kV4Mask, kV4Mask.size() - kPsnWord)
            : crc_of_head(ip, kV6Mask, kV6Mask.size() - kPsnWord);
}

uint32_t icrc_go_on(uint32_t crc, std::span<const uint8_t> bytes) {
  if (bytes.size() > kWordByWord) return crc32_gzip_refl(crc, bytes.data(), bytes.size());
  uint32_t state = ~crc;
  size_t at = 0;
  for (uint32_t word; at + sizeof word <= bytes.size(); at += sizeof word) {
    std::memcpy(&word, bytes.data() + at, sizeof word);  // little-endian, as the CRC is reflected
    state = steps().after_four(state ^ word);
  }
  return at == bytes.size() ? ~state
                            : crc32_gzip_refl(~state, bytes.data() + at, bytes.size() - at);
}

uint32_t icrc_after_zeros(uint32_t crc, uint32_t zeros) { return ~steps().after(~crc, zeros); }

uint32_t icrc(std::span<const uint8_t> ip) {
  const bool v4 = (ip[0] >> 4) == 4;
  const size_t head = v4 ? kV4Head : kV6Head;
  const uint32_t crc = v4 ? crc_of_head(ip.data(), kV4Mask) : crc_of_head(ip.data(), kV6Mask);
  return crc32_gzip_refl(crc, ip.data() + head, ip.size() - head);
}

}  // namespace understudy
