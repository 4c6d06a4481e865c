// Addresses of all NICs that a shard knows: its real ones and every emulated one.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"

namespace understudy {

/// A node's NIC.
struct NodeNic {
  NodeId id = kNoNode;
  bool real = false;
  MacAddress mac;  ///< a real NIC's is learned from its frames when not configured
  std::optional<IpAddress> v4, v6;
  std::optional<uint16_t> vlan_tci;  ///< PCP and VLAN id of its RoCE traffic
  bool mac_known = true;             ///< false: `mac` is a guess until the NIC is heard
  unsigned nic = 0;                  ///< of its node
  /// A real NIC whose node has no TCP of its own: the host here speaks for it.
  bool host_speaks = false;
};

/// Built by control, read-only for the shard but for a real NIC's learned MAC.
class NodeTable {
 public:
  void add(const NodeNic& nic) {
    const auto index = static_cast<uint32_t>(nics_.size());
    nics_.push_back(nic);
    by_id_.try_emplace(nic.id, index);
    if (nic.v4) by_address_[*nic.v4] = index;
    if (nic.v6) by_address_[*nic.v6] = index;
  }
  const NodeNic* find(const IpAddress& address) const {
    const auto it = by_address_.find(address);
    return it == by_address_.end() ? nullptr : &nics_[it->second];
  }
  NodeNic* find(const IpAddress& address) {
    return const_cast<NodeNic*>(static_cast<const NodeTable*>(this)->find(address));
  }
  /// The first one of a node.
  const NodeNic* find(NodeId id) const {
    const auto it = by_id_.find(id);
    return it == by_id_.end() ? nullptr : &nics_[it->second];
  }
  /// The one of a node with this address; without one, its first.
  const NodeNic* find(NodeId id, const IpAddress& address) const {
    const NodeNic* nic = find(address);
    return nic != nullptr && nic->id == id ? nic : find(id);
  }
  const std::vector<NodeNic>& nics() const { return nics_; }
  /// Of one of these in nics().
  uint32_t position(const NodeNic& nic) const { return static_cast<uint32_t>(&nic - nics_.data()); }

 private:
  std::vector<NodeNic> nics_;
  std::unordered_map<IpAddress, uint32_t> by_address_;
  std::unordered_map<NodeId, uint32_t> by_id_;
};

}  // namespace understudy
