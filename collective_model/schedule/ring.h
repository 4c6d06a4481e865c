// Rings: all-reduce, all-gather and reduce-scatter go round in steps; broadcast and reduce are a
// pipeline along the ring.
#pragma once

#include <vector>

#include "collective_model/schedule/lane.h"

namespace understudy {

/// All-reduce (2(n-1) steps a loop), all-gather and reduce-scatter (n-1). Connections: of each lane
/// the one to the successor, then the one from the predecessor. Message m of both is slice s of
/// step j of loop l, m = (l * steps + j) * slices + s.
class RingRankSchedule : public RankSchedule {
 public:
  RingRankSchedule(const Communicator& communicator, const Operation& operation,
                   const OperationCut& cut, uint32_t rank);
  Message message(uint32_t connection, uint64_t k) const override;
  uint64_t alternates_until(uint32_t connection, uint64_t k) const override;
  Waits waits(uint32_t connection, uint64_t k) const override;
  uint64_t messages_of_a_loop(uint32_t lane) const { return uint64_t{steps_} * slices_[lane]; }
  uint32_t value_parts(uint32_t, uint64_t) const override { return 1; }
  ValuePart value_part(uint32_t connection, uint64_t k, uint32_t part) const override;
  uint32_t result_parts(uint32_t connection, uint64_t k) const override;
  ValuePart result_part(uint32_t connection, uint64_t k, uint32_t part) const override;

 private:
  uint32_t step_of(uint32_t connection, uint64_t k) const {
    return static_cast<uint32_t>(k / slices_[connection / 2] % steps_);
  }

  Communicator communicator_;
  Collective collective_;
  uint32_t rank_;
  uint64_t part_bytes_;  ///< of one rank, if ranks have parts
  uint32_t element_;
  uint32_t ranks_;
  uint32_t steps_;
  std::vector<Lane> lanes_;
  std::vector<uint32_t> positions_;  ///< of the rank, by lane
  std::vector<uint32_t> slices_;     ///< of a chunk, by lane
};

/// Broadcast from the root on, or reduce to it: every rank passes on each chunk.
class PipelineRankSchedule : public RankSchedule {
 public:
  PipelineRankSchedule(const Communicator& communicator, const Operation& operation,
                       const OperationCut& cut, uint32_t rank);
  Message message(uint32_t connection, uint64_t k) const override;
  uint64_t alternates_until(uint32_t connection, uint64_t k) const override {
    const Lane& lane = lanes_[lane_of_[connection]];
    const uint64_t tail = uint64_t{lane.chunks.loops() - 1} * lane.chunking.slices();
    return k < tail ? tail : k + 1;
  }
  Waits waits(uint32_t connection, uint64_t k) const override;
  uint32_t value_parts(uint32_t, uint64_t) const override { return 1; }
  ValuePart value_part(uint32_t connection, uint64_t k, uint32_t part) const override;
  uint32_t result_parts(uint32_t connection, uint64_t) const override {
    return broadcast_ || passes_on_[connection] < 0 ? 1 : 0;
  }
  ValuePart result_part(uint32_t connection, uint64_t k, uint32_t part) const override;

 private:
  bool broadcast_;
  uint32_t element_;
  std::vector<Lane> lanes_;
  std::vector<uint32_t> lane_of_;   ///< by connection
  std::vector<int64_t> passes_on_;  ///< by connection: the other one of the lane, or -1
};

}  // namespace understudy
