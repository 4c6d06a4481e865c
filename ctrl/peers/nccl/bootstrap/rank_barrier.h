// NCCL's barriers over all ranks of a communicator by messages (docs/nccl 1.6): in round m a rank
// tells the one 2^m further on that it is there, and waits for the one 2^m before it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/ring_shape.h"

namespace understudy {

/// One tag's barriers, one after the other. Emulated ranks are there as soon as a real one is.
class RankBarrier {
 public:
  explicit RankBarrier(const std::vector<NcclMember>& members);

  struct Send {
    uint32_t from = 0, to = 0;  ///< emulated, real
  };
  /// A real rank's message to an emulated one; false: no barrier has one between these two.
  /// Appends what emulated ranks tell real ones next.
  bool came(uint32_t from, uint32_t to, std::vector<Send>& sends);

 private:
  uint32_t rounds_ = 0;
  const std::vector<NcclMember>& members_;
  std::vector<uint64_t>
      begun_;  ///< by rank: rounds that an emulated one has begun, of all barriers
  std::map<uint64_t, uint64_t> heard_;  ///< by real rank and round: messages to emulated ranks
  uint64_t barriers_ = 0;               ///< that a real rank is known to have begun
};

}  // namespace understudy
