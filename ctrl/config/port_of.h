// Which port of a configuration a real node's NIC is behind.
#pragma once

#include <cstddef>
#include <optional>

#include "ctrl/config/config.h"

namespace understudy {

/// Its position in Config::ports; nothing if there is none.
inline std::optional<size_t> port_of(const Config& config, NodeId node, size_t nic) {
  for (size_t port = 0; port < config.ports.size(); ++port) {
    if (config.ports[port].node == node && config.ports[port].nic == nic) return port;
  }
  return std::nullopt;
}

}  // namespace understudy
