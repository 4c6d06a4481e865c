// Which channels' rings and trees go from one rank to another: a set-up of transports only says
// how many channels it is about, in ascending order (docs/nccl 2.6 to 2.8; graph/connect.cc).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bootstrap_layout.h"
#include "ctrl/peers/nccl/bootstrap/slices.h"

namespace understudy {

class GraphEdges {
 public:
  static constexpr uint32_t kChannels = 64;

  GraphEdges(const std::vector<NcclMember>& members, const RingShape& shape,
             const NcclSlices& slices);

  /// A real rank's allGatherInfo.
  void came(uint32_t rank, std::span<const uint8_t> slice);
  /// Channels that NCCL's search found, of rings and trees alike; 0 before a real rank has said.
  uint32_t search_channels(const BootstrapLayout& layout) const;
  /// The first `count` channels on which a ring (or else a tree, or PAT) takes data from one rank
  /// to the other and that are not in `taken`, a bit for each. Where what is known does not explain
  /// `count`: the lowest. Fewer than `count` if there are no more.
  std::vector<uint32_t> channels(const BootstrapLayout& layout, bool ring, uint32_t from,
                                 uint32_t to, uint64_t taken, size_t count);

 private:
  /// Of a node: its ranks on the search's channels.
  struct Ends {
    uint32_t channels = 0;
    bool swapped = false;  ///< pairs of rings are exchanged on nodes with odd numbers
    std::array<uint32_t, kChannels> receives{}, sends{}, to_parent{}, to_child0{}, to_child1{};
  };
  Ends ends_of(const BootstrapLayout& layout, uint32_t node) const;
  bool tree_edge(uint32_t tree, uint32_t child_node, uint32_t parent_node, const Ends& child,
                 const Ends& parent, uint32_t search, uint32_t low, uint32_t high) const;

  const std::vector<NcclMember>& members_;
  const RingShape& shape_;
  const NcclSlices& slices_;
  std::vector<uint32_t> first_ranks_;  ///< of nodes, in their order
  std::vector<uint32_t> node_of_;
  std::map<uint32_t, std::vector<uint8_t>> info_;  ///< of real nodes' first ranks
  uint32_t ring_channels_ = 0;                     ///< seen in a set-up of the ring
};

}  // namespace understudy
