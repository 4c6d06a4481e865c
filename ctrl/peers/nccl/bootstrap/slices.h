// What emulated ranks contribute to the ring's all-gathers: their addresses, and copies of a real
// rank's ncclPeerInfo and allGatherInfo with the few fields changed in which ranks differ
// (docs/nccl 1.5, 1.7.1, 1.7.2, 1.9).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bootstrap_layout.h"
#include "ctrl/peers/nccl/bootstrap/host.h"
#include "ctrl/peers/nccl/bootstrap/ring_shape.h"

namespace understudy {

/// What an all-gather is about.
enum class GatherKind : uint8_t {
  kAddresses,  ///< where messages to each rank go; from 2.23 on with all that follows until kUds
  kProxies,
  kUds,
  kPeerInfo,
  kAllGatherInfo,
  kSplitColors,
  kSplitKeys,
  kSplit,     ///< key and color
  kSegments,  ///< the last three: of one-sided operations (docs/nccl 3.16)
  kOneSidedCount,
  kHandles,
  kOther,  ///< copied as it is
};

class NcclSlices {
 public:
  NcclSlices(const std::vector<NcclMember>& members, const RingShape& shape, uint64_t seed);

  /// Appends the slice of an emulated rank: of `size` bytes, for kAddresses with the address where
  /// it listens, else a changed copy of `model`, the slice of shape.model_of(rank).
  void append_addresses(uint32_t size, uint32_t rank, const SocketAddress& address,
                        std::vector<uint8_t>& to) const;
  void append_uds(uint32_t size, uint32_t rank, std::vector<uint8_t>& to) const;
  void append_peer_info(const BootstrapLayout& layout, uint32_t rank,
                        std::span<const uint8_t> model, std::vector<uint8_t>& to) const;
  void append_all_gather_info(const BootstrapLayout& layout, uint32_t rank,
                              std::span<const uint8_t> model, std::vector<uint8_t>& to) const;

 private:
  uint64_t random(uint64_t what, uint64_t of) const;

  struct Node {
    std::vector<uint32_t> ranks;  ///< by place
    /// All its ranks copy the ranks in the same places of one real node, so also that node's
    /// chains.
    bool alike = true;
  };
  const std::vector<NcclMember>& members_;
  const RingShape& shape_;
  uint64_t seed_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> node_of_;  ///< index into nodes_, by rank
};

/// Empty, or why a real rank's ncclPeerInfo cannot be of the configured release.
std::string peer_info_fault(const BootstrapLayout& layout, uint32_t rank,
                            std::span<const uint8_t> slice);

}  // namespace understudy
