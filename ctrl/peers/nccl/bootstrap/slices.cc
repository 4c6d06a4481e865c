#include "ctrl/peers/nccl/bootstrap/slices.h"

#include <algorithm>
#include <map>

#include "ctrl/peers/nccl/bootstrap/bytes.h"
#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

// ncclPeerInfo, all releases.
constexpr size_t kPeerRank = 0, kHostHash = 16, kPidHash = 24, kBusId = 40, kFabricInfoBytes = 36;
constexpr uint64_t kBus = 0x1000;  // of a PCI bus' first device
// bootstrapRingData from 2.23 on: address for messages, the proxy's, its UNIX socket's number.
constexpr size_t kRingProxy = 28, kRingUds = 56;
// ncclTopoRanks: arrays in their order.
enum TopoArray : uint32_t {
  kRingRecv,
  kRingSend,
  kRingPrev,
  kRingNext,
  kTreeToParent,
  kTreeToChild0,
  kTreeToChild1,
  kTopoArrays,
};
// graphInfo: entries by algorithm, in each the pattern and the number of channels.
constexpr uint32_t kTree = 0, kRing = 1, kCollNetDirect = 2, kNvlsTree = 5;
constexpr size_t kGraphPattern = 0, kGraphChannels = 4;
// NCCL_TOPO_PATTERN_* (graph.h): which of a chain's ranks talk to the children of a tree's node.
constexpr uint32_t kPatternSplitTree = 2, kPatternTree = 3;
constexpr uint32_t kHostOf = 1, kPidOf = 2, kUdsOf = 3;

}  // namespace

NcclSlices::NcclSlices(const std::vector<NcclMember>& members, const RingShape& shape,
                       uint64_t seed)
    : members_(members), shape_(shape), seed_(seed), node_of_(members.size()) {
  std::map<uint32_t, uint32_t> index;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    const auto [at, fresh] = index.try_emplace(members[rank].node, nodes_.size());
    if (fresh) nodes_.emplace_back();
    nodes_[at->second].ranks.push_back(rank);
    node_of_[rank] = at->second;
  }
  for (Node& node : nodes_) {
    const uint32_t copied = node_of_[shape.model_of(node.ranks.front())];
    for (const uint32_t rank : node.ranks) {
      const uint32_t model = shape.model_of(rank);
      node.alike = node.alike && node_of_[model] == copied &&
                   members[model].local == members[rank].local &&
                   members[model].node_ranks == members[rank].node_ranks;
    }
  }
}

uint64_t NcclSlices::random(uint64_t what, uint64_t of) const {
  return splitmix64(splitmix64(seed_ ^ what << 56) + of);
}

void NcclSlices::append_addresses(uint32_t size, uint32_t rank, const SocketAddress& address,
                                  std::vector<uint8_t>& to) const {
  const size_t at = to.size();
  to.resize(at + size);
  const std::span<uint8_t> slice(to.data() + at, size);
  put_nccl_address(slice, 0, address);
  if (size < kRingUds + 8) return;
  // Only ranks of its own node would connect there. What follows is for the RAS threads: zeros are
  // a rank without one.
  put_nccl_address(slice, kRingProxy, address);
  put_nccl_u64(slice, kRingUds, random(kUdsOf, members_[rank].world));
}

void NcclSlices::append_uds(uint32_t size, uint32_t rank, std::vector<uint8_t>& to) const {
  const size_t at = to.size();
  to.resize(at + size);
  put_nccl_u64(to, at, random(kUdsOf, members_[rank].world));
}

void NcclSlices::append_peer_info(const BootstrapLayout& layout, uint32_t rank,
                                  std::span<const uint8_t> model, std::vector<uint8_t>& to) const {
  const size_t at = to.size();
  to.insert(to.end(), model.begin(), model.end());
  const std::span<uint8_t> slice(to.data() + at, model.size());
  put_nccl_u32(slice, kPeerRank, rank);
  put_nccl_u64(slice, kHostHash, random(kHostOf, members_[rank].node));
  put_nccl_u64(slice, kPidHash, random(kPidOf, members_[rank].world));
  // Its model is of no such place: the GPUs of a node are different ones.
  if (!nodes_[node_of_[rank]].alike) put_nccl_u64(slice, kBusId, kBus * (members_[rank].local + 1));
  if (layout.fabric_info == 0) return;
  // "Not supported": real and emulated nodes share no NVLink.
  const auto fabric = slice.subspan(layout.fabric_info, kFabricInfoBytes);
  std::fill(fabric.begin(), fabric.end(), uint8_t{0});
}

void NcclSlices::append_all_gather_info(const BootstrapLayout& layout, uint32_t rank,
                                        std::span<const uint8_t> model,
                                        std::vector<uint8_t>& to) const {
  const size_t at = to.size();
  to.insert(to.end(), model.begin(), model.end());
  const std::span<uint8_t> slice(to.data() + at, model.size());
  const auto graph = [&](uint32_t algorithm, size_t field) {
    return size_t{algorithm} * layout.graph_entry + field;
  };
  // CollNet, NVLS and NVLS trees: off for the whole communicator.
  for (uint32_t algorithm = kCollNetDirect; algorithm <= kNvlsTree; ++algorithm) {
    put_nccl_u32(slice, graph(algorithm, kGraphChannels), 0);
  }
  const uint32_t channels =
      std::min({nccl_u32(model, graph(kTree, kGraphChannels)),
                nccl_u32(model, graph(kRing, kGraphChannels)), layout.channels});
  const auto entry = [&](uint32_t array, uint32_t channel) {
    return layout.topo_ranks + (array * layout.channels + channel) * 4;
  };
  const std::vector<uint32_t>& own = nodes_[node_of_[rank]].ranks;
  const uint32_t place = members_[rank].local;
  if (nodes_[node_of_[rank]].alike) {
    const std::vector<uint32_t>& copied = nodes_[node_of_[shape_.model_of(rank)]].ranks;
    // The same chains, with this node's ranks in the other's places.
    for (uint32_t array = 0; array < kTopoArrays; ++array) {
      for (uint32_t c = 0; c < channels; ++c) {
        const uint32_t value = nccl_u32(model, entry(array, c));
        const auto found = std::lower_bound(copied.begin(), copied.end(), value);
        if (found == copied.end() || *found != value) continue;  // -1: no such rank
        put_nccl_u32(slice, entry(array, c), own[static_cast<size_t>(found - copied.begin())]);
      }
    }
    return;
  }
  // Chains of this node's own: its ranks in their order on all channels.
  constexpr uint32_t kNone = ~0u;
  const uint32_t pattern = nccl_u32(model, graph(kTree, kGraphPattern));
  const uint32_t second = own.size() > 1 ? own[1] : own[0];
  const uint32_t values[kTopoArrays] = {
      own.front(),
      own.back(),
      place == 0 ? kNone : own[place - 1],
      place + 1 == own.size() ? kNone : own[place + 1],
      own.front(),
      pattern == kPatternTree ? own.front() : second,
      pattern == kPatternSplitTree ? second : own.front(),
  };
  for (uint32_t array = 0; array < kTopoArrays; ++array) {
    for (uint32_t c = 0; c < channels; ++c) put_nccl_u32(slice, entry(array, c), values[array]);
  }
  if (layout.local_ranks_at != 0) {
    put_nccl_u32(slice, layout.local_ranks_at, static_cast<uint32_t>(own.size()));
  }
}

std::string peer_info_fault(const BootstrapLayout& layout, uint32_t rank,
                            std::span<const uint8_t> slice) {
  if (const uint32_t says = nccl_u32(slice, kPeerRank); says != rank) {
    return "rank " + std::to_string(rank) + " calls itself " + std::to_string(says) +
           " in its ncclPeerInfo: the layout of NCCL " + std::string(layout.releases) +
           " does not fit";
  }
  if (layout.version_at == 0) return {};
  const uint32_t code = nccl_u32(slice, layout.version_at);  // 22809 is 2.28.9
  const uint32_t minor = code / 100 % 100;
  if (code / 10000 == 2 && minor == layout.minor) return {};
  const std::string release = "2." + std::to_string(minor);
  return "rank " + std::to_string(rank) + " runs NCCL " + std::to_string(code / 10000) + "." +
         std::to_string(minor) + "." + std::to_string(code % 100) + ", not 2." +
         std::to_string(layout.minor) + ": set nccl = \"" + release + "\" in the [job]";
}

}  // namespace understudy
