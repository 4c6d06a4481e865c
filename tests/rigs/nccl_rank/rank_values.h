// What a rank puts into an operation, what it makes of what comes, and what must come out of it, bit
// by bit (docs/nccl 3.14): it keeps all messages of the operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "tests/rigs/nccl_rank/values.h"

namespace understudy::nccl_rank {

class RankValues final : public Values {
 public:
  struct Settings {
    uint32_t rank = 0;
    understudy::Communicator communicator = {};
    Operation operation = {};
    ReduceOp reduction = ReduceOp::kSum;
    uint64_t own_seed = 0;            ///< of this rank and other real ones
    uint64_t others_seed = 0;         ///< of emulated ones
    std::vector<uint32_t> real = {};  ///< ranks, this one too
    std::vector<std::shared_ptr<const RankSchedule>> ranks = {};  ///< all parts
  };
  explicit RankValues(Settings settings);

  void receive(uint32_t connection, uint64_t k, const std::byte* bytes) override;
  void send(uint32_t connection, uint64_t k, std::byte* bytes) const override;
  /// Bytes of the result that differ from those of a plain collective on all ranks' buffers.
  uint64_t wrong() const override;

 private:
  std::vector<uint8_t> made(const ValuePart& part) const;
  const RankSchedule& schedule() const { return *settings_.ranks[settings_.rank]; }
  uint64_t seed(uint32_t rank) const;

  Settings settings_;
  std::vector<std::vector<std::vector<uint8_t>>> came_;  ///< by connection and message
};

}  // namespace understudy::nccl_rank
