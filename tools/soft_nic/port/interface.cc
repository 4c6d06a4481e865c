#include "tools/soft_nic/port/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <sstream>

#include "dataplane/base/unique_fd.h"
#include "tools/soft_nic/base/settings.h"

namespace understudy::soft_nic {

namespace {

// IPv6 header, UDP, BTH, RETH and immediate, ICRC.
constexpr uint32_t kMostHeaders = 40 + 8 + 12 + 16 + 4 + 4;
constexpr uint32_t kBareMtu = 4200;  ///< path MTU 4096, as the emulator's ports

uint32_t v4_of(const sockaddr* address) {
  sockaddr_in in;
  std::memcpy(&in, address, sizeof in);
  return ntohl(in.sin_addr.s_addr);
}

/// Of the default route through `name` (proc(5), net/route).
IpAddress gateway_of(const std::string& name) {
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

bool read_request(int fd, unsigned long what, ifreq& request) {
  return ioctl(fd, what, &request) == 0;
}

/// In Mbit/s as sysfs has it; nothing for devices that do not know.
uint64_t speed_of(const std::string& name) {
  std::ifstream file("/sys/class/net/" + name + "/speed");
  int64_t mbits = 0;
  return file >> mbits && mbits > 0 ? static_cast<uint64_t>(mbits) * 1'000'000 : 0;
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
  found.index = static_cast<int>(if_nametoindex(found.name.c_str()));
  found.gateway = gateway_of(found.name);
  found.bits_per_second = speed_of(found.name);
  return found;
}

}  // namespace

IpAddress Interface::next_hop(const IpAddress& to) const {
  const bool here = IpPrefix{address, prefix}.contains(to);
  return here || gateway.is_unset() ? to : gateway;
}

Result<Interface> find_interface(const std::string& name, const IpAddress& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return fail("the list of interfaces cannot be read");
  Interface found;
  for (const ifaddrs* i = list; i != nullptr && found.name.empty(); i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    const bool usable = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0;
    if (name.empty() ? !usable : name != i->ifa_name) continue;
    const IpAddress own = IpAddress::v4(v4_of(i->ifa_addr));
    if (!address.is_unset() && own != address) continue;
    found.name = i->ifa_name;
    found.address = own;
    found.prefix = static_cast<unsigned>(std::popcount(v4_of(i->ifa_netmask)));
  }
  freeifaddrs(list);
  if (!found.name.empty()) return fill(found);
  if (!address.is_unset()) {
    return fail("no interface" + (name.empty() ? "" : " " + name) + " has the address " +
                address.text() + ": set " + kAddressVariable);
  }
  if (name.empty())
    return fail(std::string("no interface is up and has an IPv4 address: set ") + kDeviceVariable);
  return fail("there is no interface " + name + " with an IPv4 address: set " + kDeviceVariable);
}

Interface bare_interface(const IpAddress& address) {
  Interface out;
  out.name = "vhost";
  const uint32_t v4 = address.v4_value();
  out.mac.bytes = {2,
                   0,
                   static_cast<uint8_t>(v4 >> 24),
                   static_cast<uint8_t>(v4 >> 16),
                   static_cast<uint8_t>(v4 >> 8),
                   static_cast<uint8_t>(v4)};
  out.address = address;
  out.prefix = 0;
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
