#include "ctrl/peers/nccl/bootstrap/unique_id.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

// ncclBootstrapHandle: the magic, a sockaddr_in or sockaddr_in6 of Linux, an int.
constexpr size_t kAddress = 8, kRanks = 36, kRest = 40;
constexpr uint16_t kFamilyV4 = 2, kFamilyV6 = 10;
/// NCCL_MAGIC (include/comm.h).
constexpr uint64_t kCommIdMagic = 0x0280028002800280;
/// First NCCL whose ids of NCCL_COMM_ID have it (bootstrap.cc of 2.21.5 and 2.22.3).
constexpr uint32_t kCommIdMagicSince = 22;

uint64_t little_endian(std::span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

Result<SocketAddress> parse_sockaddr(std::span<const uint8_t> bytes) {
  const uint64_t family = little_endian(bytes.first(2));
  SocketAddress address;
  address.port = static_cast<uint16_t>(bytes[2] << 8 | bytes[3]);
  if (family == kFamilyV4) {
    address.address = IpAddress::v4_bytes(bytes.data() + 4);
  } else if (family == kFamilyV6) {
    address.address = IpAddress::v6_bytes(bytes.data() + 8);
  } else {
    return fail("its address is of family " + std::to_string(family) +
                ", neither 2 (IPv4) nor 10 (IPv6)");
  }
  if (address.address.is_unset() || (address.address.is_v4() && address.address.v4_value() == 0)) {
    return fail("its address is unspecified");
  }
  if (address.address.is_link_local_v6()) {
    return fail("its address " + address.address.text() +
                " is link-local: emulated nodes cannot tell which link; set NCCL_SOCKET_IFNAME or "
                "NCCL_SOCKET_FAMILY on the real node");
  }
  if (address.port == 0) return fail("its port is 0");
  return address;
}

}  // namespace

UniqueIdBytes unique_id_bytes(const NcclUniqueId& id) {
  UniqueIdBytes bytes{};
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(id.magic >> (8 * i));
  const IpAddress& address = id.root.address;
  bytes[kAddress] = address.is_v4() ? kFamilyV4 : kFamilyV6;
  bytes[kAddress + 2] = static_cast<uint8_t>(id.root.port >> 8);
  bytes[kAddress + 3] = static_cast<uint8_t>(id.root.port);
  if (address.is_v4()) {
    std::memcpy(bytes.data() + kAddress + 4, address.v4_data(), 4);
  } else {
    std::memcpy(bytes.data() + kAddress + 8, address.data(), 16);
  }
  std::copy(id.rest.begin(), id.rest.end(), bytes.begin() + kRest);
  return bytes;
}

Result<NcclUniqueId> parse_unique_id(std::span<const uint8_t> bytes) {
  if (bytes.size() != kUniqueIdBytes) {
    return fail("an NCCL unique id has 128 bytes, this has " + std::to_string(bytes.size()));
  }
  if (std::all_of(bytes.begin(), bytes.begin() + kRest, [](uint8_t b) { return b == 0; })) {
    return fail("the NCCL unique id is all zeros: its program has not called ncclGetUniqueId");
  }
  NcclUniqueId id;
  id.magic = little_endian(bytes.first(8));
  const auto root = parse_sockaddr(bytes.subspan(kAddress, kRanks - kAddress));
  if (!root) return fail("this is no NCCL unique id: " + root.error().text);
  id.root = *root;
  if (const uint64_t ranks = little_endian(bytes.subspan(kRanks, 4)); ranks != 0) {
    return fail("the NCCL unique id is one of ncclCommGrow, for a communicator of " +
                std::to_string(ranks) + " ranks: emulated ranks do not join these");
  }
  std::copy(bytes.begin() + kRest, bytes.end(), id.rest.begin());
  return id;
}

Result<NcclUniqueId> unique_id_of_comm_id(std::string_view comm_id, NcclVersion version) {
  const auto root = parse_socket_address(comm_id);
  if (!root) return fail("NCCL_COMM_ID: " + root.error().text);
  if (version.minor < kCommIdMagicSince) {
    return fail("NCCL_COMM_ID is not enough for NCCL 2." + std::to_string(version.minor) +
                ": before 2.22 each process adds a random number to it; give the unique id by a "
                "file or by PyTorch's store");
  }
  return NcclUniqueId{kCommIdMagic, *root, {}};
}

NcclUniqueId make_unique_id(uint64_t seed, uint64_t communicator, const SocketAddress& root) {
  return {splitmix64(splitmix64(seed ^ 0x756e697175656964) + communicator), root, {}};
}

}  // namespace understudy
