// All-gather and reduce-scatter by PAT: see pat_pattern.h.
#pragma once

#include <memory>
#include <vector>

#include "collective_model/nccl/pat_pattern.h"
#include "collective_model/schedule/lane.h"

namespace understudy {

/// Connections of each lane: of every distance 2^d the one it sends on, then the one it receives
/// on. The order of messages on different connections is that of their data alone: NCCL's warps
/// work at them side by side.
class PatRankSchedule : public RankSchedule {
 public:
  /// `other`: another rank's, whose patterns are shared; or null.
  PatRankSchedule(const Communicator& communicator, const Operation& operation,
                  const OperationCut& cut, uint32_t rank, const PatRankSchedule* other = nullptr);
  Message message(uint32_t connection, uint64_t k) const override;
  Waits waits(uint32_t connection, uint64_t k) const override;
  bool names_old_messages() const override { return true; }

 private:
  struct LanePattern {
    Lane lane;
    std::shared_ptr<const PatPattern> pattern;
  };
  const LanePattern& lane_of(uint32_t connection) const {
    return lanes_[connection / (2 * dimensions_)];
  }
  uint32_t dimension_of(uint32_t connection) const { return connection / 2 % dimensions_; }

  bool gather_;
  uint32_t ranks_;
  uint32_t dimensions_;
  uint64_t block_bytes_;
  std::vector<LanePattern> lanes_;
};

}  // namespace understudy
