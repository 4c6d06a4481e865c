#include "ctrl/peers/nccl/transport/graph_edges.h"

#include <algorithm>

#include "collective_model/nccl/double_tree.h"
#include "ctrl/peers/nccl/bootstrap/bytes.h"

namespace understudy {
namespace {

// As in slices.cc: graphInfo's entries and ncclTopoRanks' arrays.
constexpr uint32_t kTreeGraph = 0, kRingGraph = 1, kGraphChannelsAt = 4, kGraphCrossNicAt = 28;
constexpr uint32_t kReceives = 0, kSends = 1, kToParent = 4, kToChild0 = 5, kToChild1 = 6;
constexpr uint32_t kCrossNicAlternates = 2;

}  // namespace

GraphEdges::GraphEdges(const std::vector<NcclMember>& members, const RingShape& shape,
                       const NcclSlices& slices)
    : members_(members), shape_(shape), slices_(slices), node_of_(members.size()) {
  std::map<uint32_t, uint32_t> numbers;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    const auto [at, fresh] = numbers.try_emplace(members[rank].node, first_ranks_.size());
    if (fresh) first_ranks_.push_back(rank);
    node_of_[rank] = at->second;
  }
}

void GraphEdges::came(uint32_t rank, std::span<const uint8_t> slice) {
  if (members_[rank].local == 0) info_[rank].assign(slice.begin(), slice.end());
}

GraphEdges::Ends GraphEdges::ends_of(const BootstrapLayout& layout, uint32_t node) const {
  const uint32_t rank = first_ranks_[node];
  std::vector<uint8_t> info;
  if (const auto own = info_.find(rank); own != info_.end()) {
    info = own->second;
  } else {
    const auto model = info_.find(shape_.model_of(rank));
    if (members_[rank].real || (model == info_.end() && info_.empty())) return {};
    slices_.append_all_gather_info(
        layout, rank, model == info_.end() ? info_.begin()->second : model->second, info);
  }
  Ends ends;
  const auto graph = [&](uint32_t algorithm, uint32_t field) {
    return nccl_u32(info, algorithm * layout.graph_entry + field);
  };
  ends.channels = std::min({graph(kTreeGraph, kGraphChannelsAt),
                            graph(kRingGraph, kGraphChannelsAt), layout.channels, kChannels});
  const auto read = [&](uint32_t array, std::array<uint32_t, kChannels>& to) {
    for (uint32_t c = 0; c < ends.channels; ++c) {
      to[c] = nccl_u32(info, layout.topo_ranks + (array * layout.channels + c) * 4);
    }
  };
  read(kReceives, ends.receives);
  read(kSends, ends.sends);
  read(kToParent, ends.to_parent);
  read(kToChild0, ends.to_child0);
  read(kToChild1, ends.to_child1);
  // From 2.28 on each rank says so before the arrays, before that the ring's graph does.
  const uint32_t cross_nic =
      layout.ring == RingOrder::kBothWays     ? nccl_u32(info, layout.topo_ranks - 4)
      : layout.graph_entry > kGraphCrossNicAt ? graph(kRingGraph, kGraphCrossNicAt)
                                              : 0;
  ends.swapped = cross_nic == kCrossNicAlternates && ends.channels % 2 == 0 && node % 2 == 1;
  return ends;
}

bool GraphEdges::tree_edge(uint32_t tree, uint32_t child_node, uint32_t parent_node,
                           const Ends& child, const Ends& parent, uint32_t search, uint32_t low,
                           uint32_t high) const {
  const DoubleTree trees(static_cast<uint32_t>(first_ranks_.size()));
  const uint32_t child_place = trees.place(tree, child_node);
  const uint32_t parent_place = trees.place(tree, parent_node);
  if (child_place == 0 || trees.parent(child_place) != parent_place) return false;
  // By places in both trees, also where the second one is mirrored.
  const auto& to_child = child_place < parent_place ? parent.to_child0 : parent.to_child1;
  return child.to_parent[search] == low && to_child[search] == high;
}

uint32_t GraphEdges::search_channels(const BootstrapLayout& layout) const {
  // Emulated ranks say what real ones do, and the least of all counts.
  uint32_t least = 0;
  for (const auto& [rank, info] : info_) {
    const uint32_t found = ends_of(layout, node_of_[rank]).channels;
    least = least == 0 ? found : std::min(least, found);
  }
  return least;
}

std::vector<uint32_t> GraphEdges::channels(const BootstrapLayout& layout, bool ring, uint32_t from,
                                           uint32_t to, uint64_t taken, size_t count) {
  const auto nodes = static_cast<uint32_t>(first_ranks_.size());
  const uint32_t from_node = node_of_[from], to_node = node_of_[to];
  const Ends sender = ends_of(layout, from_node), receiver = ends_of(layout, to_node);
  const uint32_t search_channels = std::min(sender.channels, receiver.channels);
  const uint32_t twice = 2 * search_channels;
  std::vector<uint32_t> explained, lowest;
  for (uint32_t c = 0; c < kChannels; ++c) {
    if ((taken >> c & 1) != 0) continue;
    lowest.push_back(c);
    if (search_channels == 0) continue;
    const uint32_t search = c % twice % search_channels, tree = c % twice / search_channels;
    bool edge = false;
    if (ring) {
      const uint32_t out = sender.swapped ? search ^ 1 : search;
      const uint32_t in = receiver.swapped ? search ^ 1 : search;
      edge = to_node == (from_node + 1) % nodes && sender.sends[out] == from &&
             receiver.receives[in] == to;
    } else {
      edge = tree_edge(tree, from_node, to_node, sender, receiver, search, from, to) ||
             tree_edge(tree, to_node, from_node, receiver, sender, search, to, from);
    }
    if (edge) explained.push_back(c);
  }
  const bool one_each = nodes == members_.size();
  if (ring && one_each) ring_channels_ = static_cast<uint32_t>(count);
  if (!ring && one_each) {
    // With one GPU a node PAT shares the trees' tag. It is about all channels.
    const uint32_t all = ring_channels_ != 0 ? ring_channels_ : twice;
    std::erase_if(explained, [&](uint32_t c) { return c >= all; });
    if (explained.size() != count) explained.clear();
  }
  std::vector<uint32_t>& chosen = explained.size() >= count ? explained : lowest;
  chosen.resize(std::min(chosen.size(), count));
  return chosen;
}

}  // namespace understudy
