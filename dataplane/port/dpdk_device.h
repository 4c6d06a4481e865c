// What a configured device string means, and whether this machine and user can open it. Looks at
// the string and the system only; no DPDK call.
#pragma once

#include <string>

#include "dataplane/base/result.h"

namespace understudy {

/// A device of a [[port]]: a PCI address ("0000:3b:00.0") or a DPDK virtual device
/// ("net_vhost0,iface=/path,queues=1").
struct DpdkDevice {
  bool pci = false;
  std::string name;    ///< full PCI address in lower case, or the virtual device's name
  std::string driver;  ///< "net_vhost" ...; empty for PCI
  std::string args;    ///< after the first comma; for a server's vhost socket see dpdk_vhost.h

  /// Value of `key` in args; empty when absent.
  std::string arg(const std::string& key) const;
  /// Of a key that is there.
  void set_arg(const std::string& key, const std::string& value);
  /// As rte_eal_init() takes a PCI device, its driver's arguments with it:
  /// "0000:3b:00.0,tx_pp=500".
  std::string with_args() const { return args.empty() ? name : name + "," + args; }
};

/// Reads a device string. A vhost socket without a folder lies in runtime_folder(). Errors name the port and what is wrong with the string.
Result<DpdkDevice> parse_dpdk_device(const std::string& port, const std::string& text);

/// Is the device there, and may this user open it? Errors name port and device and say what to do.
/// Virtual devices: checks what their drivers would only report as a number (TAP and raw sockets
/// need a capability).
Result<void> check_dpdk_device(const std::string& port, const DpdkDevice& device);

}  // namespace understudy
