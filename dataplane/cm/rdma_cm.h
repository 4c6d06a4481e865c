// What RDMA-CM (the library behind rping, perftest -R, ...) puts into the communication manager's
// messages: service ids that name a port, and a header in a request's private data (rule A9.3).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/address.h"

namespace understudy {

enum class PortSpace : uint16_t { kTcp = 0x0106, kUdp = 0x0111 };

constexpr uint64_t rdma_service_id(PortSpace space, uint16_t port) {
  return static_cast<uint64_t>(space) << 16 | port;
}
/// The port that a service id names in `space`; nothing if it lies elsewhere.
constexpr std::optional<uint16_t> rdma_port(uint64_t service_id, PortSpace space) {
  if (service_id >> 16 != static_cast<uint64_t>(space)) return std::nullopt;
  return static_cast<uint16_t>(service_id & 0xffff);
}

/// First bytes of the private data of a REQ or SIDR_REQ; the consumer's own follow.
inline constexpr size_t kRdmaHeaderBytes = 36;
struct RdmaHeader {
  uint16_t src_port = 0;
  IpAddress src, dst;  ///< of one family
};

/// Nothing if `private_data` does not start with a header of version 0 for IPv4 or IPv6.
std::optional<RdmaHeader> parse_rdma_header(std::span<const uint8_t> private_data);
/// Writes the header to the first bytes of `private_data`.
void format_rdma_header(const RdmaHeader& header, std::span<uint8_t> private_data);

}  // namespace understudy
