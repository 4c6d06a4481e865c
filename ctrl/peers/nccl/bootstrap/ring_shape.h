// Where real ranks stand in NCCL's bootstrap ring, and whose slice each emulated rank copies.
#pragma once

#include <cstdint>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bootstrap_layout.h"

namespace understudy {

/// A rank of one communicator.
struct NcclMember {
  uint32_t world = 0;  ///< its number in the first communicator
  bool real = false;
  uint32_t node = 0;
  uint32_t local = 0;       ///< its place among its node's ranks
  uint32_t node_ranks = 1;  ///< of this communicator
  /// Its number in the communicator whose data connections these are: its own, or the one whose
  /// resources it shares.
  uint32_t top = 0;
};

/// Neighbouring real ranks: `first`, first+1, ..., `last` (modulo the number of ranks), between the
/// emulated ranks `before` and `after`. The only ring sockets that exist are before -> first and
/// last -> after.
struct RingSegment {
  uint32_t first = 0, last = 0, before = 0, after = 0;
};

class RingShape {
 public:
  RingShape(const std::vector<NcclMember>& members, RingOrder order);

  uint32_t ranks() const { return ranks_; }
  RingOrder order() const { return order_; }
  /// Empty if no rank is real, or none is emulated.
  const std::vector<RingSegment>& segments() const { return segments_; }
  /// Frames of an all-gather from a rank to its next, and to the one before it.
  uint32_t steps_forward() const;
  uint32_t steps_backward() const;

  /// Whose slice this emulated rank's is a copy of (docs/nccl 1.9): the real rank in the same place
  /// of a node that is as large, if the slices of all ranks of that node are sure to come before
  /// the copies have to go; else the last of the segment before it, whose slice comes first of all.
  uint32_t model_of(uint32_t emulated) const { return models_[emulated]; }
  /// Whether that real rank's slice is sure to come before the emulated one's has to go.
  bool comes_before(uint32_t real, uint32_t emulated) const;

 private:
  void find_segments(const std::vector<NcclMember>& members);
  void find_models(const std::vector<NcclMember>& members);

  /// Of a real rank: its segment's length and how far it is from the ends. Of an emulated one: in
  /// which step its slice is first sent to a real rank.
  struct Place {
    uint32_t length = 0, from_first = 0, from_last = 0, step = 0;
  };

  uint32_t ranks_ = 0;
  RingOrder order_;
  std::vector<RingSegment> segments_;
  std::vector<Place> places_;
  std::vector<uint32_t> models_;  ///< unused for real ranks
};

}  // namespace understudy
