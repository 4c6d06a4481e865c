#include "dataplane/base/socket_address.h"

#include <charconv>

namespace understudy {

std::string SocketAddress::text() const {
  std::string text = address.text();
  if (!address.is_v4()) text.insert(0, 1, '[').push_back(']');
  return text.append(":").append(std::to_string(port));
}

Result<SocketAddress> parse_socket_address(std::string_view text) {
  const auto wrong = [&](const char* why) {
    std::string said(1, '"');
    said.append(text).append("\" is not of the form 192.0.2.1:5000 or [2001:db8::1]:5000: ");
    return fail(said.append(why));
  };
  const bool bracket = text.starts_with('[');
  const size_t colon = bracket ? text.find("]:") : text.rfind(':');
  if (colon == std::string_view::npos) return wrong("it has no port");
  const std::string_view host = bracket ? text.substr(1, colon - 1) : text.substr(0, colon);
  const std::string_view port = text.substr(colon + (bracket ? 2 : 1));
  SocketAddress result;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc() || end != port.data() + port.size() || result.port == 0) {
    return wrong("the port is to be 1..65535");
  }
  const auto address = IpAddress::parse(host);
  if (!address) return wrong("the host is to be an IP address; names are not looked up");
  if (bracket == address->is_v4()) return wrong("brackets belong around IPv6 addresses");
  result.address = *address;
  return result;
}

}  // namespace understudy
