// Numbers of the links of a shard without switches: each NIC has one to the fabric and one from it,
// for each class of traffic that has a rate of its own.
#pragma once

#include <cstdint>

namespace understudy {

/// 0: data, or everything; 1: ACKs and credits, where ShardConfig::separate_control gives them a
/// class of their own.
inline constexpr uint32_t kLinkClasses = 2;

/// `node`: position in the node table; `up`: from the node to the fabric.
constexpr uint32_t link_id(uint32_t node, bool up, uint32_t cls) {
  return (node * 2 + (up ? 1 : 0)) * kLinkClasses + cls;
}
constexpr uint32_t node_of_link(uint32_t link) { return link / (2 * kLinkClasses); }
constexpr uint32_t class_of_link(uint32_t link) { return link % kLinkClasses; }
constexpr bool is_uplink(uint32_t link) { return link / kLinkClasses % 2 != 0; }

static_assert(node_of_link(link_id(7, true, 1)) == 7 && class_of_link(link_id(7, true, 1)) == 1 &&
              is_uplink(link_id(7, true, 1)) && !is_uplink(link_id(7, false, 1)));

}  // namespace understudy
