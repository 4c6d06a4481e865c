#include "ctrl/peers/service.h"

#include <algorithm>
#include <charconv>

#include "dataplane/base/assert.h"
#include "dataplane/base/pattern.h"

namespace understudy {

Service service_of(const Config& config, const ServiceConfig& service, unsigned nic) {
  const NodeConfig& node = config.nodes[service.node];
  Service s;
  s.node = node.name;
  s.v4 = node.nics[nic].v4;
  s.v6 = node.nics[nic].v6;
  s.port = service.port;
  s.kind = service.kind;
  s.unreliable = service.unreliable;
  s.memory = service.memory;
  s.message_bytes = service.message_bytes;
  s.pingpong_mtu = service.pingpong_mtu;
  s.mtu = config.fabric.mtu;
  s.seed = config.seed;
  s.sender = service.sender;
  return s;
}

std::string_view service_kind_name(ServiceKind kind) {
  const auto* known =
      std::ranges::find(kServiceKinds, kind, &decltype(kServiceKinds)::value_type::second);
  ASSERT_INVARIANT(known != kServiceKinds.end());
  return known->first;
}

std::string service_label(const Service& service) {
  return "service " + service.node + ":" + std::to_string(service.port) + " (kind \"" +
         std::string(service_kind_name(service.kind)) + "\")";
}

Result<IpAddress> matching_gid(const Service& service, const IpAddress& client) {
  if (client.is_unset()) {
    return fail(service_label(service) +
                ": the client sent no GID; give it a GID index (-g for a pingpong, -x for "
                "perftest) of its IPv4 or IPv6 address");
  }
  const std::optional<IpAddress>& ours = client.is_v4() ? service.v4 : service.v6;
  if (ours) return *ours;
  const std::string family = client.is_v4() ? "IPv4" : "IPv6";
  return fail(service_label(service) + ": the client's GID " + client.text() + " is " + family +
              " but node " + service.node + " has no " + family +
              " address; choose another GID index at the client or add " +
              (client.is_v4() ? "v4" : "v6") + " to its [[prefix]]");
}

Psn choose_psn(const Service& service, const IpAddress& client, Qpn client_qpn) {
  const uint64_t hash = std::hash<IpAddress>{}(client) ^ client_qpn;
  return Psn(static_cast<uint32_t>(splitmix64(splitmix64(service.seed) ^ hash) & Psn::kMask));
}

std::optional<uint64_t> parse_hex(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string printable(const std::vector<uint8_t>& bytes, size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(bytes.size(), limit); ++i) {
    text += bytes[i] >= 0x20 && bytes[i] < 0x7f ? static_cast<char>(bytes[i]) : '.';
  }
  return text;
}

}  // namespace understudy
