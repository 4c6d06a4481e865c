#include "tools/soft_nic/port/interface.h"

#include <ifaddrs.h>
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "dataplane/base/try.h"
#include "dataplane/base/unique_fd.h"
#include "tools/soft_nic/base/settings.h"

namespace understudy::soft_nic {

namespace {

// IPv6 header, UDP, BTH, RETH and immediate, ICRC.
constexpr uint32_t kMostHeaders = 40 + 8 + 12 + 16 + 4 + 4;
constexpr uint32_t kBareMtu = 4200;  ///< path MTU 4096, as the emulator's ports

struct FreeAddresses {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};

struct FreeNames {
  void operator()(struct if_nameindex* list) const { if_freenameindex(list); }
};

/// One address of one of the host's interfaces.
struct Found {
  std::string interface;
  unsigned flags = 0;  ///< IFF_...
  IpPrefix address;
};

IpAddress address_of(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    return IpAddress::v4(ntohl(in.sin_addr.s_addr));
  }
  sockaddr_in6 in;
  std::memcpy(&in, address, sizeof in);
  return IpAddress::v6_bytes(in.sin6_addr.s6_addr);
}

/// Bits that are set in a mask, which is of the address' family.
unsigned prefix_of(const sockaddr* mask, const IpAddress& address) {
  if (mask == nullptr) return address.is_v4() ? 32 : 128;
  if (address.is_v4()) {
    sockaddr_in in;
    std::memcpy(&in, mask, sizeof in);
    return static_cast<unsigned>(std::popcount(in.sin_addr.s_addr));
  }
  sockaddr_in6 in;
  std::memcpy(&in, mask, sizeof in);
  unsigned bits = 0;
  for (const uint8_t byte : in.sin6_addr.s6_addr) {
    bits += static_cast<unsigned>(std::popcount(byte));
  }
  return bits;
}

Result<std::vector<Found>> all_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return fail("the list of interfaces cannot be read");
  const std::unique_ptr<ifaddrs, FreeAddresses> held(list);
  std::vector<Found> out;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const IpAddress address = address_of(i->ifa_addr);
    out.push_back({i->ifa_name, i->ifa_flags, {address, prefix_of(i->ifa_netmask, address)}});
  }
  return out;
}

/// The order in which addresses are wanted.
enum class Kind : uint8_t { kV4, kV6, kLinkLocal };
constexpr Kind kKinds[] = {Kind::kV4, Kind::kV6, Kind::kLinkLocal};

Kind kind_of(const IpAddress& address) {
  if (address.is_v4()) return Kind::kV4;
  return address.is_link_local_v6() ? Kind::kLinkLocal : Kind::kV6;
}

/// The first interface that may be used unasked; empty: none.
std::string first_usable(const std::vector<Found>& all, const std::vector<IpAddress>& wanted) {
  for (const Kind kind : kKinds) {
    for (const Found& found : all) {
      if ((found.flags & IFF_UP) == 0 || (found.flags & IFF_LOOPBACK) != 0) continue;
      const IpAddress& address = found.address.address;
      if (wanted.empty() ? kind_of(address) == kind : address == wanted.front()) {
        return found.interface;
      }
    }
  }
  return {};
}

std::vector<IpPrefix> of_interface(const std::vector<Found>& all, const std::string& name) {
  std::vector<IpPrefix> out;
  for (const Kind kind : kKinds) {
    if (kind == Kind::kLinkLocal && !out.empty()) break;
    for (const Found& found : all) {
      if (found.interface == name && kind_of(found.address.address) == kind) {
        out.push_back(found.address);
      }
    }
  }
  return out;
}

/// Of the default IPv4 route through `name` (proc(5), net/route).
IpAddress gateway_v4_of(const std::string& name) {
  std::ifstream routes("/proc/self/net/route");
  std::string line;
  std::getline(routes, line);
  while (std::getline(routes, line)) {
    std::istringstream words(line);
    std::string device;
    uint32_t to = 0, through = 0;
    words >> device >> std::hex >> to >> through;
    if (device == name && to == 0 && through != 0) return IpAddress::v4(ntohl(through));
  }
  return {};
}

/// The same of IPv6 (net/ipv6_route: destination, its prefix, source, its prefix, next hop, four
/// numbers, device).
IpAddress gateway_v6_of(const std::string& name) {
  std::ifstream routes("/proc/self/net/ipv6_route");
  std::string line;
  while (std::getline(routes, line)) {
    std::istringstream words(line);
    std::string to, bits, from, from_bits, through, skipped, device;
    words >> to >> bits >> from >> from_bits >> through;
    for (int i = 0; i < 4; ++i) words >> skipped;
    words >> device;
    if (device != name || bits != "00" || through.size() != 32) continue;
    std::array<uint8_t, 16> bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::from_chars(through.data() + 2 * i, through.data() + 2 * i + 2, bytes[i], 16);
    }
    const IpAddress hop = IpAddress::v6_bytes(bytes.data());
    if (!hop.is_unset()) return hop;
  }
  return {};
}

bool read_request(int fd, unsigned long what, ifreq& request) {
  return ioctl(fd, what, &request) == 0;
}

/// In Mbit/s as sysfs has it; nothing for devices that do not know.
uint64_t speed_of(const std::string& name) {
  std::ifstream file("/sys/class/net/" + name + "/speed");
  int64_t mbits = 0;
  return file >> mbits && mbits > 0 ? static_cast<uint64_t>(mbits) * 1'000'000 : 0;
}

/// What the kernel's interface of a VLAN is.
struct KernelVlan {
  std::string below;  ///< the interface that its frames leave by
  uint16_t id = 0;
};

/// Nothing for other interfaces.
std::optional<KernelVlan> vlan_of(const std::string& name) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  vlan_ioctl_args request{};
  request.cmd = GET_VLAN_REALDEV_NAME_CMD;
  std::strncpy(request.device1, name.c_str(), sizeof request.device1 - 1);
  if (ioctl(fd.get(), SIOCGIFVLAN, &request) != 0) return std::nullopt;
  KernelVlan out{request.u.device2, 0};
  request = {};
  request.cmd = GET_VLAN_VID_CMD;
  std::strncpy(request.device1, name.c_str(), sizeof request.device1 - 1);
  if (ioctl(fd.get(), SIOCGIFVLAN, &request) != 0) return std::nullopt;
  out.id = static_cast<uint16_t>(request.u.VID);
  return out;
}

/// The kernel's interface of a VLAN upon `link`, if there is one.
std::optional<std::string> interface_of_vlan(const std::string& link, uint16_t vlan) {
  const std::unique_ptr<struct if_nameindex, FreeNames> all(if_nameindex());
  for (const auto* i = all.get(); i != nullptr && i->if_name != nullptr; ++i) {
    const auto found = vlan_of(i->if_name);
    if (found && found->below == link && found->id == vlan) return i->if_name;
  }
  return std::nullopt;
}

Result<Interface> fill(Interface found) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, found.name.c_str(), IFNAMSIZ - 1);
  if (!read_request(fd.get(), SIOCGIFMTU, request)) return fail(found.name + ": no MTU");
  found.mtu = static_cast<uint32_t>(request.ifr_mtu);
  if (!read_request(fd.get(), SIOCGIFHWADDR, request) ||
      (request.ifr_hwaddr.sa_family != ARPHRD_ETHER &&
       request.ifr_hwaddr.sa_family != ARPHRD_LOOPBACK)) {
    return fail(found.name + " is not an Ethernet interface: set " + kDeviceVariable);
  }
  std::memcpy(found.mac.bytes.data(), request.ifr_hwaddr.sa_data, found.mac.bytes.size());
  found.index = found.link = static_cast<int>(if_nametoindex(found.name.c_str()));
  found.gateway_v4 = gateway_v4_of(found.name);
  found.gateway_v6 = gateway_v6_of(found.name);
  found.bits_per_second = speed_of(found.name);
  return found;
}

}  // namespace

size_t Interface::index_of(const IpAddress& address) const {
  size_t i = 0;
  while (i < addresses.size() && addresses[i].address != address) ++i;
  return i;
}

const IpAddress* Interface::source_for(const IpAddress& to) const {
  const IpAddress* any = nullptr;
  for (const IpPrefix& own : addresses) {
    if (own.address.is_v4() != to.is_v4()) continue;
    if (own.contains(to)) return &own.address;
    if (any == nullptr) any = &own.address;
  }
  return any;
}

IpAddress Interface::next_hop(const IpAddress& to) const {
  const bool here =
      std::ranges::any_of(addresses, [&](const auto& own) { return own.contains(to); });
  const IpAddress& gateway = to.is_v4() ? gateway_v4 : gateway_v6;
  return here || to.is_link_local_v6() || gateway.is_unset() ? to : gateway;
}

Result<Interface> find_interface(const std::string& name, const std::vector<IpAddress>& addresses) {
  const auto all = TRY(all_addresses());
  const auto lacks = [&](const IpAddress& address) {
    return fail("no interface" + (name.empty() ? "" : " " + name) + " has the address " +
                address.text() + ": set " + kAddressVariable);
  };
  Interface found;
  found.name = name.empty() ? first_usable(all, addresses) : name;
  if (found.name.empty() && !addresses.empty()) return lacks(addresses.front());
  if (found.name.empty()) {
    return fail(std::string("no interface is up and has an address: set ") + kDeviceVariable);
  }
  for (const IpAddress& wanted : addresses) {
    const auto at = std::ranges::find_if(all, [&](const Found& other) {
      return other.interface == found.name && other.address.address == wanted;
    });
    if (at == all.end()) return lacks(wanted);
    found.addresses.push_back(at->address);
  }
  if (addresses.empty()) found.addresses = of_interface(all, found.name);
  if (found.addresses.empty()) {
    return fail("there is no interface " + name + " with an address: set " + kDeviceVariable);
  }
  return fill(std::move(found));
}

Result<Interface> find_vlan_interface(const std::string& name,
                                      const std::vector<IpAddress>& addresses, uint16_t vlan) {
  const std::string base = name.empty() ? first_usable(TRY(all_addresses()), addresses) : name;
  const auto itself = vlan_of(base);
  if (itself && itself->id != vlan) {
    return fail(base + " is the interface of VLAN " + std::to_string(itself->id) + ": set " +
                kVlanVariable);
  }
  const auto upon = itself ? std::optional(base) : interface_of_vlan(base, vlan);
  auto found = TRY(find_interface(upon.value_or(base), addresses));
  found.vlan = vlan;
  found.kernel_answers = upon.has_value();
  const std::string& link = itself ? itself->below : base;
  found.link = static_cast<int>(if_nametoindex(link.c_str()));
  return found;
}

Interface bare_interface(const std::vector<IpAddress>& addresses) {
  Interface out;
  out.name = "vhost";
  const uint8_t* low = addresses.front().data() + 12;
  out.mac.bytes = {2, 0, low[0], low[1], low[2], low[3]};
  for (const IpAddress& address : addresses) out.addresses.push_back({address, 0});
  out.mtu = kBareMtu;
  return out;
}

uint32_t longest_roce_frame(uint32_t interface_mtu) {
  return kEthernetBytes + kMostHeaders + roce_mtu(interface_mtu);
}

uint32_t roce_mtu(uint32_t interface_mtu) {
  uint32_t mtu = 4096;
  while (mtu > 256 && mtu + kMostHeaders > interface_mtu) mtu /= 2;
  return mtu;
}

}  // namespace understudy::soft_nic
