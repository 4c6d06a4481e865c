// What the user asks of ring_node.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "ctrl/peers/ring/ring_messages.h"
#include "dataplane/base/address.h"
#include "dataplane/base/result.h"

namespace understudy {

struct RingNodeOptions {
  IpAddress next;                     ///< node of the rank after ours; of a whole node any one
  IpAddress previous;                 ///< node of the rank before ours
  uint16_t port = kRingOobPort;       ///< TCP, of both; with real neighbours ours, too
  std::string job;                    ///< name, or empty: the only one
  std::string device;                 ///< RDMA device, or empty: the one with our address
  std::optional<uint32_t> gid_index;  ///< nothing: the GID equal to our address towards next
  std::optional<uint64_t> perturb;    ///< element to change before each size's last iteration
  std::optional<uint64_t> input_seed;
  std::chrono::nanoseconds delay{0};  ///< how much later we enter each operation
  /// Operations are entered at multiples of this of CLOCK_MONOTONIC; 0: when the last one ended.
  std::chrono::nanoseconds period{0};
  /// Computes as the job says, that is sleeps: for a whole node, which is told.
  bool compute = false;
  /// The job where all ranks are real and nobody else describes it; client_rank is our rank.
  std::optional<RingJobMessage> ring;
  std::chrono::milliseconds connect_limit{30000};   ///< for each step of the set-up
  std::chrono::milliseconds progress_limit{30000};  ///< without any progress in an operation
};

/// Of our ranks' values: what the user gave, or drawn.
Result<uint64_t> choose_input_seed(const RingNodeOptions& options);

}  // namespace understudy
