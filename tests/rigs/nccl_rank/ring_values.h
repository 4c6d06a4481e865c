// What a rank puts into an all-reduce of float32 by ring and Simple, what it makes of what comes,
// and what must come out of it, bit by bit (docs/nccl 3.10).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective_model/schedule/schedule.h"

namespace understudy::nccl_rank {

class RingValues {
 public:
  struct Settings {
    uint32_t rank = 0, ranks = 0;
    uint64_t elements = 0;
    uint64_t own_seed = 0;            ///< of this rank and other real ones
    uint64_t others_seed = 0;         ///< of emulated ones
    std::vector<uint32_t> real = {};  ///< ranks beside this one
  };
  /// `schedule` is the rank's, and outlives this.
  RingValues(const Settings& settings, const RankSchedule& schedule);

  /// Message `k` of a connection, by its position in the schedule, has come as `bytes`.
  void receive(uint32_t connection, uint64_t k, const std::byte* bytes);
  /// Writes that one.
  void send(uint32_t connection, uint64_t k, std::byte* bytes) const;
  /// Elements that differ in any bit from the sum in the ring's order.
  uint64_t wrong() const;

 private:
  /// Of the ring, from 0 on in each loop.
  uint32_t step(uint32_t connection, uint64_t k) const;
  std::span<float> part(const Message& message);

  Settings settings_;
  const RankSchedule& schedule_;
  std::vector<float> input_, values_;
  std::vector<uint32_t> chunks_;  ///< of each element
};

}  // namespace understudy::nccl_rank
