// What the jobs of a configuration put on the wire: for checkers, which see connections and
// messages, not plans.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctrl/config/config.h"

namespace understudy {

/// The data messages of one of NCCL's connections, from one rank to another on a channel, over all
/// operations of the job (warm-ups included), in order.
struct ExpectedConnection {
  std::string name;  ///< "job j, gpu to w0, channel 0"
  NodeId from = 0, to = 0;
  unsigned from_nic = 0, to_nic = 0;
  std::vector<uint32_t> sizes;  ///< bytes of each WRITE with immediate; 0 is a message, too
  uint32_t credit_bytes = 64;   ///< of each WRITE that grants one of them
};

/// All connections that have a real node at one end or at both. `unknown`: file, line and reason of
/// each job with a real node whose messages are not known.
std::vector<ExpectedConnection> expected_connections(const Config& config,
                                                     std::vector<std::string>* unknown = nullptr);

}  // namespace understudy
