// All-reduce over heads: NVLS in one node, NVLS tree and CollNet direct over several. Each node has
// heads (Communicator::heads()); a loop of a channel is a chunk of each of them. A head reduces its
// chunk of all GPUs of the node, and gives the result to all of them (docs/nccl 3.10). Between,
// NVLS tree has the same heads of all nodes in a double binary tree. CollNet's heads send to the
// network, whose switches reduce, and get the result from there: such a connection has the head at
// both ends.
//
// NVLS reads and writes through the node's switch, which reduces and copies. A GPU's link carries
// up, for each chunk of each head, the GPU's own data (a head's too), and a head's result once:
// S (n+1)/n bytes each way of an operation of S bytes on n heads. Here these are messages from each
// GPU to each head and back, which take so many even shares of the link.
#pragma once

#include <optional>
#include <vector>

#include "collective_model/schedule/lane.h"

namespace understudy {

/// Of a node: what one rank can wait for.
inline constexpr uint32_t kMostGpusOfHeads = 16;

/// Connections of each lane, as far as they are: to the other heads; of a head, to be reduced: from
/// the node's others, then up and from each rank below; to spread: from above, to the node's others,
/// to each rank below; from the other heads.
class HeadsRankSchedule : public RankSchedule {
 public:
  HeadsRankSchedule(const Communicator& communicator, const Operation& operation,
                    const OperationCut& cut, uint32_t rank);
  Message message(uint32_t connection, uint64_t k) const override;
  Waits waits(uint32_t connection, uint64_t k) const override;
  uint32_t value_parts(uint32_t, uint64_t) const override { return 1; }
  ValuePart value_part(uint32_t connection, uint64_t k, uint32_t part) const override;
  /// A head of the root node has its result with the first message that it reduces.
  uint32_t result_parts(uint32_t connection, uint64_t k) const override;
  ValuePart result_part(uint32_t connection, uint64_t k, uint32_t part) const override;

 private:
  enum class Role : uint8_t {
    kGiven,    ///< to another head
    kReduced,  ///< from the node's others or from below
    kUp,       ///< to above
    kAbove,    ///< from above
    kSpread,   ///< to the node's others or below
    kTaken,    ///< from another head
  };
  struct Place {
    uint32_t lane, head;  ///< whose chunk
    Role role;
  };
  /// Of a lane of a head.
  struct Head {
    std::vector<uint32_t> reduced;  ///< connections
    std::optional<uint32_t> up, above;
    uint32_t first_spread = 0;
  };
  /// The ranks of other nodes that a head reduces with; `above` is itself where the network does it.
  struct Neighbours {
    std::optional<uint32_t> above;
    std::vector<uint32_t> below;
  };
  Neighbours neighbours(const Communicator& communicator, uint32_t channel, uint32_t rank) const;
  /// A connection inside the node, by the switch if that reduces.
  Connection inside(Connection connection, uint8_t index, uint32_t shares) const;
  void add(const Connection& connection, uint32_t lane, uint32_t head, Role role);
  void add_lane(const Communicator& communicator, uint32_t lane, uint32_t rank);
  void add_head(const Communicator& communicator, uint32_t lane, uint32_t rank, uint32_t head);
  ValuePart reduced(const Head& head, const Message& message, uint64_t k) const;

  Algorithm algorithm_;
  uint32_t element_;
  std::vector<Lane> lanes_;
  std::vector<Head> heads_;    ///< by lane
  std::vector<Place> places_;  ///< by connection
};

}  // namespace understudy
