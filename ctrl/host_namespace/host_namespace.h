// The exception namespace: a network namespace of our own with a TAP, where the emulated prefixes
// are local addresses (AnyIP), so that out-of-band servers are ordinary sockets on an emulated
// node's own address. All IP traffic that is not RoCE passes here.
//
// Frames on the TAP are untagged Ethernet. The namespace's own MAC is kHostNamespaceMac and every
// real node has the MAC kHostNamespacePeerMac in it, by permanent neighbour entries: the dataplane
// sets destination = kHostNamespaceMac on frames it writes, and on frames it reads replaces both
// MACs (destination by the real node's, looked up by IP address; source by the emulated node's) and
// adds the VLAN tag. No ARP or neighbour discovery is needed on the TAP in either direction.
//
// The namespace belongs to a helper process, not to a thread: without root it lives in a user
// namespace, which only a process of one thread may enter. The helper opens the TAP and the sockets
// and hands their descriptors over; it ends with its HostNamespace.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {

inline constexpr MacAddress kHostNamespaceMac{{0x02, 0x75, 0xff, 0x00, 0x00, 0x01}};
inline constexpr MacAddress kHostNamespacePeerMac{{0x02, 0x75, 0xff, 0x00, 0x00, 0x02}};

struct HostNamespaceSpec {
  uint32_t mtu = 1500;             ///< of the TAP: the port's IP MTU, in bytes
  std::vector<IpPrefix> emulated;  ///< local in the namespace
  std::vector<IpAddress> real;     ///< real nodes' addresses; reached through the TAP
};

class HostNamespace {
 public:
  /// Creates namespace, TAP, addresses and routes. Best called before any thread is started (it
  /// forks). Errors are texts for exit status 2: no permission, no /dev/net/tun, no iproute2.
  static Result<std::unique_ptr<HostNamespace>> create(const HostNamespaceSpec& spec);

  HostNamespace(const HostNamespace&) = delete;
  HostNamespace& operator=(const HostNamespace&) = delete;
  ~HostNamespace();

  /// The TAP, non-blocking.
  int fd() const { return tap_.get(); }
  /// Next frame from the namespace into `buffer`; its size, or 0 if there is none.
  size_t read_frame(std::span<uint8_t> buffer) const;
  /// Hands a frame to the namespace; false if it was not taken.
  bool write_frame(std::span<const uint8_t> frame) const;

  /// A listening non-blocking socket on an emulated address. The caller closes it.
  Result<int> listen_tcp(const IpAddress& address, uint16_t port) const;
  /// The same for all addresses of the family of `any`, an unspecified address. Port 0: any free one.
  Result<int> listen_any(const IpAddress& any, uint16_t port) const;
  /// A non-blocking socket that is connecting from an emulated address: it becomes writable when
  /// connected or failed (SO_ERROR). The caller closes it.
  Result<int> connect_tcp(const IpAddress& from, const IpAddress& to, uint16_t port) const;

 private:
  HostNamespace(UniqueFd channel, UniqueFd tap, pid_t helper, std::vector<IpPrefix> emulated);
  Result<int> ask(const std::string& request) const;
  Result<void> check_emulated(const IpAddress& address) const;

  UniqueFd channel_;  ///< to the helper; closing it ends the helper
  UniqueFd tap_;
  pid_t helper_;
  std::vector<IpPrefix> emulated_;
};

}  // namespace understudy
