// All-reduce over NCCL's two binary trees of nodes, with a chain of GPUs in each node: chunks are
// reduced up to the root and spread down again, both at the same time.
#pragma once

#include <optional>
#include <vector>

#include "collective_model/schedule/lane.h"

namespace understudy {

/// Where a rank stands in the tree of a channel. The first half of the channels uses tree 0, the
/// second half tree 1. With several GPUs a node's first one has the parent and child 1, the second
/// one child 0 (NCCL's balanced tree, its default).
struct TreePlace {
  std::optional<uint32_t> up;  ///< rank
  std::vector<uint32_t> down;  ///< ranks: in the node, then in other nodes
};
TreePlace tree_place(const Communicator& communicator, uint32_t channel, uint32_t rank);
/// The same in CollNet's chain: the first GPU of a node sends to the network, whose switches reduce,
/// as to itself.
TreePlace chain_place(const Communicator& communicator, uint32_t channel, uint32_t rank);

/// Connections of each lane: to and from the rank above, then from and to each rank below. Every
/// connection carries each chunk as one message.
class TreeRankSchedule : public RankSchedule {
 public:
  TreeRankSchedule(const Communicator& communicator, const Operation& operation,
                   const OperationCut& cut, uint32_t rank);
  Message message(uint32_t connection, uint64_t k) const override;
  uint64_t alternates_until(uint32_t connection, uint64_t k) const override {
    const uint64_t last = connections_[connection].messages - 1;
    return k < last ? last : k + 1;
  }
  Waits waits(uint32_t connection, uint64_t k) const override;
  uint32_t value_parts(uint32_t, uint64_t) const override { return 1; }
  ValuePart value_part(uint32_t connection, uint64_t k, uint32_t part) const override;
  /// The root's result is there with the first message from below, as all of a joint are.
  uint32_t result_parts(uint32_t connection, uint64_t) const override;
  ValuePart result_part(uint32_t connection, uint64_t k, uint32_t part) const override;
  /// The first connection of each lane: to the rank above, unless the rank is the root.
  std::vector<uint32_t> lanes() const;
  bool is_root(uint32_t lane) const { return lanes_[lane].root; }

 private:
  struct LanePlace {
    Lane lane;
    uint32_t first = 0;  ///< connection
    bool root = false;
    uint32_t downs = 0;
    uint32_t first_down() const { return first + (root ? 0 : 2); }  ///< receive and send of each
  };
  void add_all_below(ValuePart& part, const LanePlace& lane, uint64_t k) const;

  uint32_t element_;
  std::vector<LanePlace> lanes_;
  std::vector<uint32_t> lane_of_;  ///< by connection
};

}  // namespace understudy
