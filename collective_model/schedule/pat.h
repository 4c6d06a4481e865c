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
  uint32_t value_parts(uint32_t connection, uint64_t k) const override;
  ValuePart value_part(uint32_t connection, uint64_t k, uint32_t part) const override;
  /// Of a reduce-scatter the result is there with the last message of distance 1, which brings the
  /// last piece.
  uint32_t result_parts(uint32_t connection, uint64_t k) const override;
  ValuePart result_part(uint32_t connection, uint64_t k, uint32_t part) const override;

 private:
  struct LanePattern {
    Lane lane;
    std::shared_ptr<const PatPattern> pattern;
  };
  const LanePattern& lane_of(uint32_t connection) const {
    return lanes_[connection / (2 * dimensions_)];
  }
  uint32_t dimension_of(uint32_t connection) const { return connection / 2 % dimensions_; }
  const PatPattern::Group& group_of(uint32_t connection, uint64_t k) const {
    const auto& groups = lane_of(connection).pattern->messages(dimension_of(connection));
    return groups[k % groups.size()];
  }
  Chunk chunk_of(uint32_t connection, uint64_t k, uint64_t& number) const;
  ValuePart::Source source(uint32_t connection, uint64_t chunk, uint32_t bytes,
                           uint32_t piece) const;
  void add_all(ValuePart& part, uint32_t connection, uint64_t chunk, uint32_t piece) const;

  bool gather_;
  uint32_t rank_;
  uint32_t ranks_;
  uint32_t dimensions_;
  uint64_t block_bytes_;
  std::vector<LanePattern> lanes_;
};

}  // namespace understudy
