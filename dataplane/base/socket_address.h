// An IP address and a TCP port, and their text form.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"

namespace understudy {

struct SocketAddress {
  IpAddress address;
  uint16_t port = 0;
  std::string text() const;
  auto operator<=>(const SocketAddress&) const = default;
};

/// "192.0.2.1:5000" or "[2001:db8::1]:5000", the port not 0. Names are not looked up: the addresses
/// that emulated nodes can reach are the configuration's.
Result<SocketAddress> parse_socket_address(std::string_view text);

}  // namespace understudy
