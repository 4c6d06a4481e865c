// Where a plan's times are those of packets: it charges each message the even share of its NIC, as
// if all of the NIC's connections were always busy. One connection alone has all of it, and then
// that is no assumption.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective_model/schedule/schedule.h"

namespace understudy {

/// What an operation's connections between nodes do to the NICs of nodes without a real rank.
struct NicUse {
  uint64_t inner = 0;  ///< connections between such nodes
  /// No NIC that sends, or receives, by one of these has another connection in that direction.
  bool alone = true;
};

/// `ranks`: all ranks' parts. `real`: whether a rank is, by rank; all ranks of a node are alike.
NicUse nic_use(const Communicator& communicator,
               const std::vector<std::shared_ptr<const RankSchedule>>& ranks,
               const std::vector<bool>& real);

}  // namespace understudy
