// The address rule: NIC k of node i has host(first + i) of the k-th prefix, and the MAC
// 02:75:kk:ii:ii:ii; a node may override both.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

MacAddress rule_mac(unsigned nic, NodeId node) {
  return MacAddress{{0x02, 0x75, static_cast<uint8_t>(nic), static_cast<uint8_t>(node >> 16),
                     static_cast<uint8_t>(node >> 8), static_cast<uint8_t>(node)}};
}

/// The node's address in the prefix; nothing if the prefix is too small. The last IPv4 address is
/// the broadcast address (but for /31 and /32, RFC 3021).
std::optional<IpAddress> rule_address(const IpPrefix& prefix, uint64_t offset) {
  const bool broadcast = prefix.address.is_v4() && prefix.length < 31;
  if (broadcast && offset + 1 >= prefix.size()) return std::nullopt;
  return prefix.host(offset);
}

class Assigner {
 public:
  explicit Assigner(ReadContext& context) : context_(context) {}

  void run() {
    for (const NodeGroup& group : context_.groups) {
      for (uint32_t i = 0; i < group.count; ++i) {
        NodeConfig& node = context_.config.nodes[group.first + i];
        for (unsigned k = 0; k < node.nics.size(); ++k) assign(group, node, k);
      }
    }
    for (size_t i = 0; i < context_.config.prefixes.size(); ++i) {
      const PrefixConfig& prefix = context_.config.prefixes[i];
      const PrefixLines& lines = context_.prefix_lines[i];
      if (prefix.v4) check_size(prefix, *prefix.v4, {lines.v4, "prefix.v4"});
      if (prefix.v6) check_size(prefix, *prefix.v6, {lines.v6, "prefix.v6"});
    }
  }

 private:
  struct Owner {
    NodeId node;
    const NodeGroup* group;
  };
  using Place = std::pair<unsigned, std::string>;  ///< line and key

  void assign(const NodeGroup& group, NodeConfig& node, unsigned k) {
    NicConfig& nic = node.nics[k];
    nic.mac = group.mac ? group.mac->value : rule_mac(k, node.index);
    const auto [owner, is_new] = macs_.emplace(nic.mac, Owner{node.index, &group});
    if (!is_new) report_mac(group, node, nic.mac, owner->second);

    const std::vector<PrefixConfig>& prefixes = context_.config.prefixes;
    const auto prefix = std::find_if(prefixes.begin(), prefixes.end(),
                                     [&](const PrefixConfig& p) { return p.nic == k; });
    if (prefix == prefixes.end()) {
      if (group.address) check_override(*group.address, std::nullopt);
      return;
    }
    const PrefixLines& lines =
        context_.prefix_lines[static_cast<size_t>(prefix - prefixes.begin())];
    nic.vlan = prefix->vlan;
    nic.pcp = prefix->pcp;
    const bool own_v4 = group.address && group.address->value.is_v4();
    const bool own_v6 = group.address && !own_v4;
    if (own_v4 || own_v6) check_override(*group.address, own_v4 ? prefix->v4 : prefix->v6);
    const uint64_t offset = uint64_t{prefix->first} + node.index;
    if (prefix->v4) {
      nic.v4 = own_v4 ? group.address->value : rule_address(*prefix->v4, offset);
      nic.v4_prefix_len = prefix->v4->length;
      claim(group, node, k, nic.v4, {lines.v4, "prefix.v4"});
    }
    if (prefix->v6) {
      nic.v6 = own_v6 ? group.address->value : rule_address(*prefix->v6, offset);
      nic.v6_prefix_len = prefix->v6->length;
      claim(group, node, k, nic.v6, {lines.v6, "prefix.v6"});
    }
  }

  void check_override(const Located<IpAddress>& address, const std::optional<IpPrefix>& prefix) {
    if (prefix && prefix->contains(address.value)) return;
    if (!prefix && !context_.addresses_complete) return;
    add({address.line, "node.address"}, address.value.text(),
        prefix ? "outside NIC 0's prefix " + prefix->text()
               : "NIC 0 has no prefix of this address family");
  }

  /// Records whose address it is. An address without a value belongs to a prefix that is too small.
  void claim(const NodeGroup& group, const NodeConfig& node, unsigned k,
             const std::optional<IpAddress>& address, const Place& place) {
    if (!address) {
      // Nodes come in order, so the last one is the one that needs most.
      most_needed_[place] = node.index;
      return;
    }
    const auto [other, is_new] = addresses_.emplace(*address, Owner{node.index, &group});
    if (is_new) return;
    const NodeConfig& first = context_.config.nodes[other->second.node];
    const std::string both = "two NICs have this address: of nodes " + first.name + " and " +
                             node.name + " (NIC " + std::to_string(k) + ")";
    const NodeGroup* overriding = group.address ? &group : other->second.group;
    if (overriding->address && overriding->address->value == *address) {
      add({overriding->address->line, "node.address"}, address->text(), both);
    } else {
      add(place, address->text(), both);
    }
  }

  void report_mac(const NodeGroup& group, const NodeConfig& node, const MacAddress& mac,
                  const Owner& other) {
    const NodeGroup* overriding = group.mac ? &group : other.group;
    const std::string both = "two NICs have this MAC address: of nodes " +
                             context_.config.nodes[other.node].name + " and " + node.name;
    add({overriding->mac ? overriding->mac->line : group.line, "node.mac"}, mac.text(), both);
  }

  void check_size(const PrefixConfig& config, const IpPrefix& prefix, const Place& place) {
    const auto last = most_needed_.find(place);
    if (last == most_needed_.end()) return;
    context_.addresses_complete = false;
    const bool broadcast = prefix.address.is_v4() && prefix.length < 31;
    const uint64_t needed = uint64_t{config.first} + last->second + 1 + (broadcast ? 1 : 0);
    add(place, prefix.text() + ", which has " + std::to_string(prefix.size()) + " addresses",
        "the prefix is too small: " + std::to_string(needed) +
            " addresses are needed (first = " + std::to_string(config.first) + ", " +
            std::to_string(last->second + 1) + " nodes" + (broadcast ? ", 1 for broadcast)" : ")"));
  }

  /// One error per line and key: a whole group may collide for one reason.
  void add(const Place& place, const std::string& found, const std::string& allowed) {
    if (!reported_.insert(place).second) return;
    context_.errors.add(place.first, place.second, found, allowed);
  }

  ReadContext& context_;
  std::unordered_map<IpAddress, Owner> addresses_;
  std::map<MacAddress, Owner> macs_;
  std::map<Place, NodeId> most_needed_;
  std::set<Place> reported_;
};

}  // namespace

void assign_addresses(ReadContext& context) { Assigner(context).run(); }

}  // namespace understudy
