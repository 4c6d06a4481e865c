// What a rank puts into an all-reduce of float32 by ring and Simple, what it makes of what comes,
// and what must come out of it, bit by bit (docs/nccl 3.10). It takes less time and memory than JobValues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "tests/rigs/nccl_rank/verbs/values.h"

namespace understudy::nccl_rank {

class RingValues final : public Values {
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

  void receive(uint32_t connection, uint64_t k, const std::byte* bytes) override;
  void send(uint32_t connection, uint64_t k, std::byte* bytes) const override;
  /// Elements that differ in any bit from the sum in the ring's order.
  uint64_t wrong() const override;

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
