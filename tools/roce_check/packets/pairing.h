// Which two flows are the two directions of one connection. A packet names its receiver's queue
// pair only; the sender's is inferred from a CM exchange, or from which flow's PSNs the other one
// acknowledges.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

inline constexpr uint32_t kNoFlow = 0xffffffff;

struct FlowPair {
  uint32_t forward = kNoFlow;  ///< one direction, mostly the one that was seen first
  uint32_t reverse = kNoFlow;  ///< kNoFlow: nothing ever came back
  uint32_t pmtu = 0;           ///< path MTU in bytes: of the CM exchange, or inferred
  std::optional<size_t> cm;    ///< that exchange, an index into PacketTable::cm_pairs
  uint32_t odd_mtu = 0;        ///< what its messages are cut to, if that is no path MTU
  /// The exchange agreed on this queue pair, but the packets of `misled` go to another one.
  Qpn agreed_qpn = 0;
  uint32_t misled = kNoFlow;
};

std::vector<FlowPair> pair_flows(const PacketTable& table);

}  // namespace understudy
