// How the soft NIC is told what to do: environment variables, all with defaults.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"

namespace understudy::soft_nic {

inline constexpr const char* kDeviceVariable = "UNDERSTUDY_SOFT_NIC";
inline constexpr const char* kAddressVariable = "UNDERSTUDY_SOFT_NIC_ADDRESS";
inline constexpr const char* kNameVariable = "UNDERSTUDY_SOFT_NIC_NAME";
inline constexpr const char* kWindowVariable = "UNDERSTUDY_SOFT_NIC_WINDOW";
inline constexpr const char* kVlanVariable = "UNDERSTUDY_SOFT_NIC_VLAN";

/// In kDeviceVariable, before the name of the TAP beside a socket.
inline constexpr const char* kTapOption = ",tap=";

struct Settings {
  std::string socket;     ///< vhost-user server's; empty: a packet socket on `interface`
  std::string interface;  ///< of the kernel; empty: the first that is usable, none beside `socket`
  std::vector<IpAddress> addresses;  ///< of the device, in the order of its GIDs; empty: those of
                                     ///< that interface
  std::string name = "understudy0";  ///< of the RDMA device
  std::optional<uint16_t> vlan;      ///< 1..4094; unset: untagged
  uint32_t window = 256;             ///< request packets of a queue pair not acknowledged, 1..4096
};

/// Reads the settings by `lookup`, as getenv() does. Errors name the variable.
Result<Settings> read_settings(const std::function<const char*(const char*)>& lookup);

}  // namespace understudy::soft_nic
