// Addresses between the form of sockets, which programs use, and ours.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>

#include "dataplane/base/address.h"

namespace understudy::soft_nic {

/// Nothing for other families than IPv4's and IPv6's.
inline std::optional<IpAddress> address_in(const sockaddr* from) {
  if (from->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, from, sizeof v4);
    return IpAddress::v4(ntohl(v4.sin_addr.s_addr));
  }
  if (from->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6;
  std::memcpy(&v6, from, sizeof v6);
  return IpAddress::v6_bytes(v6.sin6_addr.s6_addr);
}

/// Both families have it in one place.
inline uint16_t port_in(const sockaddr* from) {
  sockaddr_in either;
  std::memcpy(&either, from, sizeof either);
  return ntohs(either.sin_port);
}

/// `interface` is the index that link-local addresses need.
inline void put_address(sockaddr_storage& out, const IpAddress& address, uint16_t port,
                        int interface) {
  out = {};
  if (address.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(address.v4_value());
    std::memcpy(&out, &v4, sizeof v4);
    return;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(v6.sin6_addr.s6_addr, address.data(), sizeof v6.sin6_addr);
  if (address.is_link_local_v6()) v6.sin6_scope_id = static_cast<uint32_t>(interface);
  std::memcpy(&out, &v6, sizeof v6);
}

/// "Any address", of either family.
inline bool is_any(const IpAddress& address) {
  return address.is_unset() || (address.is_v4() && address.v4_value() == 0);
}

}  // namespace understudy::soft_nic
