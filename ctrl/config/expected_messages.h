// What the jobs of a configuration put on the wire: for checkers, which see connections and
// messages, not plans.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctrl/config/config.h"

namespace understudy {

/// The data messages of one ring connection, that is one channel from one rank to the next, over
/// all operations of the job (warm-ups included), in order.
struct ExpectedConnection {
  std::string job;
  uint32_t channel = 0;
  NodeId from = 0, to = 0;
  unsigned nic = 0;
  std::vector<uint32_t> sizes;  ///< bytes of each WRITE with immediate; 0 is a message, too
};

/// All connections between a real and an emulated node.
std::vector<ExpectedConnection> expected_connections(const Config& config);

}  // namespace understudy
