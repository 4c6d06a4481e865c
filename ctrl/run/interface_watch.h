// Network interfaces behind the devices of ports, which others may take away in mid-run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ctrl/config/config.h"

namespace understudy {

/// The network interface that a device of DPDK's stands on: iface= of net_af_packet and net_af_xdp.
/// Empty where it stands on none, such as a socket of vhost-user, or makes its own, as net_tap does.
std::string interface_of(const std::string& device);

class InterfaceWatch {
 public:
  /// Notes the interfaces of all ports, whose devices are open.
  explicit InterfaceWatch(const Config& config);
  /// Which one is gone, in words; empty: none. An interface that is down is there, and one with
  /// another name, too.
  std::string gone() const;

 private:
  std::vector<std::pair<unsigned, std::string>> interfaces_;  ///< index, and what to say
};

}  // namespace understudy
