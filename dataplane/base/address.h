// MAC and IP addresses: values, text form, and the GID form of an address.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace understudy {

struct MacAddress {
  std::array<uint8_t, 6> bytes{};
  auto operator<=>(const MacAddress&) const = default;
  bool operator==(const MacAddress& other) const { return value() == other.value(); }
  bool is_multicast() const { return (bytes[0] & 1) != 0; }
  std::string text() const;
  static std::optional<MacAddress> parse(std::string_view text);

 private:
  uint64_t value() const {
    uint32_t first;
    uint16_t second;
    std::memcpy(&first, bytes.data(), sizeof first);
    std::memcpy(&second, bytes.data() + sizeof first, sizeof second);
    return uint64_t{first} << 16 | second;
  }
};

/// An IPv4 or IPv6 address, held as 16 bytes: IPv4 as ::ffff:a.b.c.d, which is also its RoCEv2 GID
/// (rule A1).
class IpAddress {
 public:
  constexpr IpAddress() = default;
  static IpAddress v4(uint32_t host_order);
  static IpAddress v4_bytes(const uint8_t* four) {
    // In two halves: bytes that are stored in more pieces cannot be read as a whole at once.
    std::array<uint32_t, 2> second;
    std::memcpy(second.data(), kV4Prefix.data() + 8, 4);
    std::memcpy(second.data() + 1, four, 4);
    IpAddress a;
    std::memcpy(a.bytes_.data() + 8, second.data(), 8);
    return a;
  }
  static IpAddress v6_bytes(const uint8_t* sixteen) {
    IpAddress a;
    std::memcpy(a.bytes_.data(), sixteen, 16);
    return a;
  }
  static std::optional<IpAddress> parse(std::string_view text);

  bool is_v4() const {
    const auto words = std::bit_cast<std::array<uint32_t, 4>>(bytes_);
    constexpr auto kLast = std::bit_cast<uint32_t>(
        std::array<uint8_t, 4>{kV4Prefix[8], kV4Prefix[9], kV4Prefix[10], kV4Prefix[11]});
    return (words[0] | words[1]) == 0 && words[2] == kLast;
  }
  bool is_unset() const { return bytes_ == std::array<uint8_t, 16>{}; }
  bool is_link_local_v6() const { return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80; }
  /// Host-order IPv4 value; meaningful only if is_v4().
  uint32_t v4_value() const;
  const std::array<uint8_t, 16>& gid() const { return bytes_; }
  const uint8_t* v4_data() const { return bytes_.data() + 12; }
  const uint8_t* data() const { return bytes_.data(); }
  std::string text() const;
  auto operator<=>(const IpAddress&) const = default;
  /// In two pieces: it is asked for of each packet.
  bool operator==(const IpAddress& other) const {
    using Halves = std::array<uint64_t, 2>;
    const auto a = std::bit_cast<Halves>(bytes_), b = std::bit_cast<Halves>(other.bytes_);
    return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
  }

 private:
  static constexpr std::array<uint8_t, 12> kV4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  std::array<uint8_t, 16> bytes_{};
};

/// An address with a prefix length, as in "10.9.0.0/16".
struct IpPrefix {
  IpAddress address;
  unsigned length = 0;  ///< in bits of the address family: 0..32 or 0..128
  bool contains(const IpAddress& a) const;
  /// The address `offset` steps after the prefix's base, or nothing if it lies outside.
  std::optional<IpAddress> host(uint64_t offset) const;
  /// Number of addresses, saturating at 2^63.
  uint64_t size() const;
  static std::optional<IpPrefix> parse(std::string_view text);
  std::string text() const;
  auto operator<=>(const IpPrefix&) const = default;
};

}  // namespace understudy

template <>
struct std::hash<understudy::IpAddress> {
  size_t operator()(const understudy::IpAddress& a) const noexcept {
    uint64_t h = 0xcbf29ce484222325ULL;
    for (uint8_t b : a.gid()) h = (h ^ b) * 0x100000001b3ULL;
    return static_cast<size_t>(h);
  }
};
