#include "dataplane/base/address.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstdio>
#include <cstring>

namespace understudy {
namespace {

unsigned first_bit(const IpAddress& a) { return a.is_v4() ? 96 : 0; }

}  // namespace

std::string MacAddress::text() const {
  char out[18];
  std::snprintf(out, sizeof out, "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2],
                bytes[3], bytes[4], bytes[5]);
  return out;
}

std::optional<MacAddress> MacAddress::parse(std::string_view text) {
  if (text.size() != 17) return std::nullopt;
  MacAddress mac;
  for (size_t i = 0; i < 6; ++i) {
    const char* at = text.data() + i * 3;
    if (i > 0 && at[-1] != ':') return std::nullopt;
    auto [end, error] = std::from_chars(at, at + 2, mac.bytes[i], 16);
    if (error != std::errc() || end != at + 2) return std::nullopt;
  }
  return mac;
}

IpAddress IpAddress::v4(uint32_t host_order) {
  const uint8_t four[4] = {static_cast<uint8_t>(host_order >> 24),
                           static_cast<uint8_t>(host_order >> 16),
                           static_cast<uint8_t>(host_order >> 8), static_cast<uint8_t>(host_order)};
  return v4_bytes(four);
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  const std::string copy(text);
  uint8_t raw[16];
  if (inet_pton(AF_INET, copy.c_str(), raw) == 1) return v4_bytes(raw);
  if (inet_pton(AF_INET6, copy.c_str(), raw) == 1) return v6_bytes(raw);
  return std::nullopt;
}

uint32_t IpAddress::v4_value() const {
  return static_cast<uint32_t>(bytes_[12]) << 24 | static_cast<uint32_t>(bytes_[13]) << 16 |
         static_cast<uint32_t>(bytes_[14]) << 8 | bytes_[15];
}

std::string IpAddress::text() const {
  char out[INET6_ADDRSTRLEN];
  if (is_v4()) {
    inet_ntop(AF_INET, v4_data(), out, sizeof out);
  } else {
    inet_ntop(AF_INET6, bytes_.data(), out, sizeof out);
  }
  return out;
}

bool IpPrefix::contains(const IpAddress& a) const {
  if (a.is_v4() != address.is_v4()) return false;
  const unsigned bits = first_bit(address) + length;
  for (unsigned bit = 0; bit < bits; ++bit) {
    const uint8_t mask = static_cast<uint8_t>(0x80 >> (bit % 8));
    if ((a.gid()[bit / 8] & mask) != (address.gid()[bit / 8] & mask)) return false;
  }
  return true;
}

std::optional<IpAddress> IpPrefix::host(uint64_t offset) const {
  std::array<uint8_t, 16> bytes = address.gid();
  for (unsigned bit = first_bit(address) + length; bit < 128; ++bit) {
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] & ~(0x80 >> (bit % 8)));
  }
  uint64_t carry = offset;
  for (size_t i = 16; i-- > 0 && carry != 0;) {
    carry += bytes[i];
    bytes[i] = static_cast<uint8_t>(carry);
    carry >>= 8;
  }
  const IpAddress result = IpAddress::v6_bytes(bytes.data());
  if (carry != 0 || !contains(result)) return std::nullopt;
  return result;
}

uint64_t IpPrefix::size() const {
  const unsigned free_bits = 128 - first_bit(address) - length;
  return free_bits >= 63 ? uint64_t{1} << 63 : uint64_t{1} << free_bits;
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto address = IpAddress::parse(text.substr(0, slash));
  const std::string_view bits = text.substr(slash + 1);
  unsigned length = 0;
  auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), length);
  if (!address || error != std::errc() || end != bits.data() + bits.size()) return std::nullopt;
  if (length > (address->is_v4() ? 32u : 128u)) return std::nullopt;
  return IpPrefix{*address, length};
}

std::string IpPrefix::text() const { return address.text() + "/" + std::to_string(length); }

}  // namespace understudy
