#include "ctrl/peers/nccl/bootstrap/bytes.h"

#include <algorithm>

namespace understudy {
namespace {

constexpr uint8_t kNcclFamilyV4 = 2, kNcclFamilyV6 = 10;  // Linux, host order

}  // namespace

void put_nccl_address(std::span<uint8_t> bytes, size_t at, const SocketAddress& address) {
  const auto to = bytes.subspan(at, kNcclAddressBytes);
  std::fill(to.begin(), to.end(), uint8_t{0});
  const bool v4 = address.address.is_v4();
  to[0] = v4 ? kNcclFamilyV4 : kNcclFamilyV6;
  to[2] = static_cast<uint8_t>(address.port >> 8);
  to[3] = static_cast<uint8_t>(address.port);
  if (v4) {
    std::copy_n(address.address.v4_data(), 4, to.begin() + 4);
  } else {
    std::copy_n(address.address.data(), 16, to.begin() + 8);
  }
}

std::optional<SocketAddress> nccl_address(std::span<const uint8_t> bytes, size_t at) {
  const auto from = bytes.subspan(at, kNcclAddressBytes);
  SocketAddress address;
  address.port = static_cast<uint16_t>(from[2] << 8 | from[3]);
  if (from[0] == kNcclFamilyV4 && from[1] == 0) {
    address.address = IpAddress::v4_bytes(from.data() + 4);
    if (address.address.v4_value() == 0) return std::nullopt;
  } else if (from[0] == kNcclFamilyV6 && from[1] == 0) {
    address.address = IpAddress::v6_bytes(from.data() + 8);
  } else {
    return std::nullopt;
  }
  if (address.port == 0 || address.address.is_unset() || address.address.is_link_local_v6()) {
    return std::nullopt;
  }
  return address;
}

}  // namespace understudy
