// A service of one emulated node as its peers see it: which GIDs to tell the client, which client
// is expected, and how to name the service in a text for the user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/config/config.h"
#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/result.h"

namespace understudy {

struct Service {
  std::string node;             ///< the emulated node's name
  std::optional<IpAddress> v4;  ///< its GIDs on this NIC; at least one
  std::optional<IpAddress> v6;
  uint16_t port = 0;
  ServiceKind kind = ServiceKind::kAuto;
  bool unreliable = false;  ///< clients that do not say it have unreliable connections
  MemoryKind memory = MemoryKind::kDiscard;
  uint32_t message_bytes = 0;    ///< that clients write; 0: not known
  uint32_t pingpong_mtu = 1024;  ///< of ibv_rc_pingpong, in bytes
  uint32_t mtu = 4096;           ///< largest path MTU to offer, in bytes
  uint64_t seed = 1;             ///< of the first PSNs we choose
  SenderConfig sender;           ///< of its queue pairs
};

/// A service of the configuration on NIC `nic` of its node.
Service service_of(const Config& config, const ServiceConfig& service, unsigned nic);

/// The kind as it is written in the configuration ("auto", "write_bw", ...).
std::string_view service_kind_name(ServiceKind kind);

/// "service w0:18515 (kind auto)": how failure texts start.
std::string service_label(const Service& service);

/// Our GID of the same family as the client's; an error if the node has none.
Result<IpAddress> matching_gid(const Service& service, const IpAddress& client);

/// First PSN of our side of a connection: a function of the seed and the client's queue pair.
Psn choose_psn(const Service& service, const IpAddress& client, Qpn client_qpn);

/// Value of `text` as a hexadecimal number, nothing unless every character is a digit and it fits.
std::optional<uint64_t> parse_hex(std::string_view text);

/// At most `limit` bytes as printable text for an error message.
std::string printable(const std::vector<uint8_t>& bytes, size_t limit);

}  // namespace understudy
