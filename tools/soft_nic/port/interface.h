// What the soft NIC must know of the network interface that it uses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"

namespace understudy::soft_nic {

struct Interface {
  std::string name;
  int index = 0;                 ///< of the kernel's interface that has the addresses
  int link = 0;                  ///< of the one that frames leave by
  std::optional<uint16_t> vlan;  ///< 1..4094: frames have this tag; others are not ours
  bool kernel_answers = true;    ///< questions for its MAC, on that link and in that VLAN
  MacAddress mac;
  /// Of both families, with the lengths of their prefixes; the device's GIDs, in this order. At
  /// least one.
  std::vector<IpPrefix> addresses;
  IpAddress gateway_v4, gateway_v6;  ///< of the default routes through it; unset: none
  uint32_t mtu = 1500;               ///< largest IP packet, bytes
  uint64_t bits_per_second = 0;      ///< 0: it does not say

  const IpAddress& first_address() const { return addresses.front().address; }
  bool has(const IpAddress& address) const { return index_of(address) < addresses.size(); }
  /// Which of the GIDs it is; addresses.size(): none.
  size_t index_of(const IpAddress& address) const;
  /// Which of its addresses speaks to `to`, of the same family; null where it has none.
  const IpAddress* source_for(const IpAddress& to) const;
  /// Whom a frame for `to` is handed to.
  IpAddress next_hop(const IpAddress& to) const;
};

/// The interface called `name` (empty: the first one that is up, not the loopback, with an IPv4
/// address, or else with an IPv6 one) with all of `addresses` in their order (empty: those that it
/// has, IPv4 first; link-local ones only where there are no others). Errors name the variable to
/// set.
Result<Interface> find_interface(const std::string& name, const std::vector<IpAddress>& addresses);

/// The same for frames of a VLAN. Where the kernel has an interface for it upon `name`, or `name`
/// is that interface, its addresses count; else those of `name`.
Result<Interface> find_vlan_interface(const std::string& name,
                                      const std::vector<IpAddress>& addresses, uint16_t vlan);

/// Of a port that no interface of the kernel stands for: all addresses are on the link, and the MAC
/// is made of the first of `addresses`.
Interface bare_interface(const std::vector<IpAddress>& addresses);

inline constexpr uint32_t kEthernetBytes = 14 + 4;  ///< header in front of an IP packet, with a tag

/// The longest RoCE frame over an interface, bytes.
uint32_t longest_roce_frame(uint32_t interface_mtu);

/// Path MTU that RoCE packets over an interface may have: the largest of 256..4096 that fits with
/// all headers (rule A1).
uint32_t roce_mtu(uint32_t interface_mtu);

}  // namespace understudy::soft_nic
