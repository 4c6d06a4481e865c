// An operation in which every rank does what the first one does, with the ranks as far from it as
// those are from the first one: PAT. One rank's part tells those of all.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective_model/schedule/schedule.h"

namespace understudy {

class SymmetricRanks {
 public:
  /// Whether it is one: of PAT, whose ranks have a node each.
  static bool is_one(const Operation& operation) {
    return !is_p2p(operation.collective) && operation.algorithm == Algorithm::kPat;
  }

  SymmetricRanks(const Communicator& communicator, const Operation& operation,
                 const OperationCut& cut);

  uint32_t ranks() const { return ranks_; }
  /// Rank 0's part. Of its connections all but the ranks hold for all other parts.
  const RankSchedule& first() const { return *first_; }
  /// The other end of a rank's connection.
  FarEnd far(uint32_t rank, uint32_t connection) const {
    const uint32_t to = rank + distance_[connection];
    return {to < ranks_ ? to : to - ranks_, far_[connection]};
  }
  std::vector<FarEnd> far_ends(uint32_t rank) const;

 private:
  uint32_t ranks_;
  std::unique_ptr<RankSchedule> first_;
  std::vector<uint32_t> distance_, far_;  ///< by connection: to the peer; the peer's connection
};

}  // namespace understudy
