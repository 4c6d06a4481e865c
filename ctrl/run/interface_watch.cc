#include "ctrl/run/interface_watch.h"

#include <net/if.h>

#include <string_view>

namespace understudy {

std::string interface_of(const std::string& device) {
  constexpr std::string_view kKey = ",iface=";
  if (!device.starts_with("net_af_packet") && !device.starts_with("net_af_xdp")) return {};
  const size_t key = device.find(kKey);
  if (key == std::string::npos) return {};
  const size_t from = key + kKey.size();
  return device.substr(from, device.find(',', from) - from);
}

InterfaceWatch::InterfaceWatch(const Config& config) {
  for (const PortConfig& port : config.ports) {
    const std::string name = interface_of(port.device);
    const unsigned index = name.empty() ? 0 : if_nametoindex(name.c_str());
    if (index == 0) continue;
    interfaces_.emplace_back(index, "port of " + config.nodes[port.node].name +
                                        ": its network interface " + name + " is gone");
  }
}

std::string InterfaceWatch::gone() const {
  char name[IF_NAMESIZE];
  for (const auto& [index, text] : interfaces_) {
    if (if_indextoname(index, name) == nullptr) return text;
  }
  return {};
}

}  // namespace understudy
