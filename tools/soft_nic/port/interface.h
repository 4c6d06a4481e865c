// What the soft NIC must know of the network interface that it uses.
#pragma once

#include <string>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"

namespace understudy::soft_nic {

struct Interface {
  std::string name;
  int index = 0;
  MacAddress mac;
  IpAddress address;             ///< IPv4
  unsigned prefix = 32;          ///< of `address`, bits
  IpAddress gateway;             ///< of the default route through it; unset: none
  uint32_t mtu = 1500;           ///< largest IP packet, bytes
  uint64_t bits_per_second = 0;  ///< 0: it does not say

  /// Whom a frame for `to` is handed to.
  IpAddress next_hop(const IpAddress& to) const;
};

/// The interface called `name` (empty: the first one that is up, not the loopback, with an IPv4
/// address) with `address` (unset: its first IPv4 address). Errors name the variable to set.
Result<Interface> find_interface(const std::string& name, const IpAddress& address);

/// Of a port that no interface of the kernel stands for: all addresses are on the link, and the MAC
/// is made of `address`.
Interface bare_interface(const IpAddress& address);

inline constexpr uint32_t kEthernetBytes = 14;  ///< header in front of an IP packet

/// The longest RoCE frame over an interface, bytes.
uint32_t longest_roce_frame(uint32_t interface_mtu);

/// Path MTU that RoCE packets over an interface may have: the largest of 256..4096 that fits with
/// all headers (rule A1).
uint32_t roce_mtu(uint32_t interface_mtu);

}  // namespace understudy::soft_nic
