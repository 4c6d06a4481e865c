#include "dataplane/cm/rdma_cm.h"

#include <algorithm>
#include <cstring>

#include "dataplane/base/big_endian.h"

namespace understudy {
namespace {

constexpr uint8_t kVersion = 0;
constexpr size_t kAddressBytes = 16;

/// An IPv4 address takes the last four bytes of its field; the others are zeros.
struct WireHeader {
  uint8_t version;
  uint8_t ip_version;  ///< high four bits
  Be16 port;
  uint8_t src[kAddressBytes];
  uint8_t dst[kAddressBytes];
};
static_assert(sizeof(WireHeader) == kRdmaHeaderBytes);

IpAddress read(bool v4, const uint8_t* field) {
  return v4 ? IpAddress::v4_bytes(field + 12) : IpAddress::v6_bytes(field);
}

void write(const IpAddress& address, uint8_t* field) {
  if (address.is_v4()) {
    std::memcpy(field + 12, address.v4_data(), 4);
  } else {
    std::memcpy(field, address.data(), kAddressBytes);
  }
}

}  // namespace

std::optional<RdmaHeader> parse_rdma_header(std::span<const uint8_t> private_data) {
  if (private_data.size() < kRdmaHeaderBytes) return std::nullopt;
  WireHeader wire;
  std::memcpy(&wire, private_data.data(), sizeof wire);
  const unsigned ip = wire.ip_version >> 4;
  if (wire.version != kVersion || (ip != 4 && ip != 6)) return std::nullopt;
  return RdmaHeader{wire.port.get(), read(ip == 4, wire.src), read(ip == 4, wire.dst)};
}

void format_rdma_header(const RdmaHeader& header, std::span<uint8_t> private_data) {
  WireHeader wire{};
  wire.version = kVersion;
  wire.ip_version = header.dst.is_v4() ? 0x40 : 0x60;
  wire.port = header.src_port;
  write(header.src, wire.src);
  write(header.dst, wire.dst);
  std::memcpy(private_data.data(), &wire, sizeof wire);
}

}  // namespace understudy
