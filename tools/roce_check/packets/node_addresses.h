// Whose packet is it: addresses of the configuration.
#pragma once

#include <map>
#include <optional>

#include "ctrl/config/config.h"
#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

struct NodePort {
  NodeId node = kNoNode;
  unsigned nic = 0;
  bool real = false;
  bool operator==(const NodePort&) const = default;
};

class NodeAddresses {
 public:
  explicit NodeAddresses(const Config& config) {
    for (const NodeConfig& node : config.nodes) {
      for (unsigned nic = 0; nic < node.nics.size(); ++nic) {
        const NodePort port{node.index, nic, node.real};
        if (node.nics[nic].v4) ports_[*node.nics[nic].v4] = port;
        if (node.nics[nic].v6) ports_[*node.nics[nic].v6] = port;
      }
    }
  }
  std::optional<NodePort> find(const IpAddress& address) const {
    const auto at = ports_.find(address);
    if (at == ports_.end()) return std::nullopt;
    return at->second;
  }

 private:
  std::map<IpAddress, NodePort> ports_;
};

}  // namespace understudy
