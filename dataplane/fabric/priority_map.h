// Which priority a switch gives to a packet: by its DSCP or by its tag, as the port trusts the one
// or the other.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace understudy {

inline constexpr unsigned kPriorities = 8;

/// DSCP and PCP to priority classes. Defaults: a priority for each class selector of RFC 2474, that
/// is DSCP / 8, as NVIDIA's adapters (mlnx_qos, dscp2prio) and switches have it, so that their CNPs
/// with DSCP 48 have priority 6 (rule A6); a tag's PCP is the priority.
struct PriorityMap {
  enum class Trust : uint8_t { kDscp, kPcp };
  Trust trust = Trust::kDscp;
  std::array<uint8_t, 64> dscp = by_class_selector();
  std::array<uint8_t, 8> pcp = {0, 1, 2, 3, 4, 5, 6, 7};
  uint8_t untrusted = 0;  ///< of what has no DSCP (no IP) or no tag

  /// `tos`: the IPv4 or IPv6 traffic class, DSCP << 2 | ECN; `tag`: the PCP of a tagged frame.
  uint8_t priority_of(std::optional<uint8_t> tos, std::optional<uint8_t> tag) const {
    if (trust == Trust::kDscp) return tos ? dscp[*tos >> 2] : untrusted;
    return tag ? pcp[*tag & 7] : untrusted;
  }

  static constexpr std::array<uint8_t, 64> by_class_selector() {
    std::array<uint8_t, 64> map{};
    for (uint8_t i = 0; i < 64; ++i) map[i] = static_cast<uint8_t>(i >> 3);
    return map;
  }
  /// What SONiC's switches start with (qos_config.j2, DSCP_TO_TC_MAP|AZURE): RDMA on DSCP 3 and 4.
  static constexpr std::array<uint8_t, 64> sonic() {
    std::array<uint8_t, 64> map{};
    map.fill(1);
    map[3] = 3;
    map[4] = 4;
    map[5] = 2;
    map[8] = 0;
    map[46] = 5;
    map[48] = 6;
    return map;
  }
};

}  // namespace understudy
