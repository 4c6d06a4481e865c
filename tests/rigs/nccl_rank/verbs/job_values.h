// What a rank puts into an operation of any kind, and what must come out of it (docs/nccl 3.14).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "tests/rigs/nccl_rank/verbs/values.h"
#include "tools/rigs/ring_node/values/rank_values.h"

namespace understudy::nccl_rank {

class JobValues final : public Values {
 public:
  struct Settings {
    uint32_t rank = 0;
    understudy::Communicator communicator = {};
    Operation operation = {};
    ReduceOp reduction = ReduceOp::kSum;
    std::vector<uint64_t> seeds = {};  ///< of contributions, by rank
  };
  /// `schedule` is the rank's, and outlives this.
  JobValues(Settings settings, const RankSchedule& schedule);

  void receive(uint32_t connection, uint64_t k, const std::byte* bytes) override;
  void send(uint32_t connection, uint64_t k, std::byte* bytes) const override;
  uint64_t wrong() const override;

 private:
  const Settings settings_;
  const RankSchedule& schedule_;
  RankValues values_;
};

}  // namespace understudy::nccl_rank
