// The shape of a communicator: where its ranks sit, its channels, and the settings of NCCL that
// decide what is sent. Ranks are numbered node by node.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "collective_model/nccl/operation.h"

namespace understudy {

/// Sizes of the buffers of one connection, of all 8 steps (NCCL_BUFFSIZE and its like).
struct BufferSizes {
  uint32_t simple = 4 * 1024 * 1024;
  uint32_t ll = 512 * 1024;
  uint32_t ll128 = 4'915'200;
  uint32_t p2p_chunk = 128 * 1024;  ///< a step of send/recv over the network

  constexpr uint32_t step(Protocol protocol) const {
    return (protocol == Protocol::kLL ? ll : protocol == Protocol::kLL128 ? ll128 : simple) / 8;
  }
};

/// Of a node, where CollNet is taken.
inline constexpr uint32_t kMostGpusOfCollnet = 8;

struct Communicator {
  uint32_t nodes = 1;
  uint32_t gpus = 1;       ///< ranks on each node
  uint32_t first_nic = 0;  ///< of each node
  uint32_t nics = 1;       ///< from it on; GPU g is next to number g * nics / gpus of these
  uint32_t ports = 1;      ///< that NCCL merged to one NIC: each is numbered
  /// From a NIC to the next one, in numbers; 0: `ports`. More where ranks of some GPUs of each node
  /// have a communicator.
  uint32_t nic_stride = 0;
  uint32_t nic_gigabytes = 0;  ///< GB/s of the NIC next to a GPU, rounded down; 0: not known
  uint32_t channels = 1;
  /// That NCCL's search found; the others are copies of these (docs/nccl 2.6; graph/connect.cc). 0:
  /// half of all.
  uint32_t search_channels = 0;
  bool pxn = false;  ///< send/recv between nodes goes by the GPU next to the receiver's rail
  NcclVersion version;
  BufferSizes buffers;
  /// Order of a node's GPUs in ring and tree of a channel: the first one receives from the node
  /// before, the last one sends to the next. Empty: channel c starts with GPU c mod gpus.
  std::vector<std::vector<uint32_t>> orders = {};
  /// Channels per pair of ranks of send/recv (NCCL_NCHANNELS_PER_NET_PEER); 0: NCCL's rule for one
  /// NIC a GPU.
  uint32_t channels_per_peer = 0;

  uint32_t ranks() const { return nodes * gpus; }
  uint32_t node_of(uint32_t rank) const { return rank / gpus; }
  uint32_t gpu_of(uint32_t rank) const { return rank % gpus; }
  bool local(uint32_t a, uint32_t b) const { return node_of(a) == node_of(b); }

  /// GPU at `place` of a node's chain on a channel.
  uint32_t gpu_at(uint32_t channel, uint32_t place) const {
    if (orders.empty()) return (channel + place) % gpus;
    return orders[channel % orders.size()][place];
  }
  /// The inverse of gpu_at().
  uint32_t place_of(uint32_t channel, uint32_t gpu) const {
    if (orders.empty()) return (gpu + gpus - channel % gpus) % gpus;
    const std::vector<uint32_t>& order = orders[channel % orders.size()];
    uint32_t place = 0;
    while (order[place] != gpu) ++place;
    return place;
  }
  /// Which of both binary trees a channel has: each search channel comes once with the first and
  /// once with the second, then copies of all of these.
  uint32_t tree_of(uint32_t channel) const {
    const uint32_t found = search_channels != 0 ? search_channels : (channels + 1) / 2;
    return channel % (2 * found) / found;
  }
  /// Rank at a position of a channel's ring, and back.
  uint32_t ring_rank(uint32_t channel, uint32_t position) const {
    return position / gpus * gpus + gpu_at(channel, position % gpus);
  }
  uint32_t ring_position(uint32_t channel, uint32_t rank) const {
    return node_of(rank) * gpus + place_of(channel, gpu_of(rank));
  }
  /// The NIC that a network connection of this rank uses, or the first of its ports.
  uint32_t nic_of(uint32_t rank) const { return nic_at(gpu_of(rank) * nics / gpus); }
  /// The first number of NIC `k`.
  uint32_t nic_at(uint32_t k) const {
    return first_nic + k * (nic_stride == 0 ? ports : nic_stride);
  }
  /// Whether some rank of each node has this number.
  bool has_nic(uint32_t number) const {
    for (uint32_t k = 0; k < nics; ++k) {
      if (number >= nic_at(k) && number - nic_at(k) < ports) return true;
    }
    return false;
  }

  /// The NIC by which a rank sends to one of another node by send/recv: with PXN the one of the
  /// receiver's rail, else its own.
  uint32_t p2p_nic(uint32_t from, uint32_t to) const { return nic_of(pxn ? to : from); }

  /// GPUs of a node each of which reduces and spreads a part by the node's switch: all of one node,
  /// else the first one of each NIC.
  uint32_t heads() const { return nodes == 1 ? gpus : std::min(std::max(nics, 1u), gpus); }
  uint32_t head_gpu(uint32_t head) const { return (head * gpus + heads() - 1) / heads(); }

  /// Channels of send/recv: a power of two.
  uint32_t p2p_channels() const { return std::bit_ceil(channels); }
  /// Channels that one pair of ranks may use (source: graph/paths.cc).
  uint32_t p2p_channels_per_peer() const;
};

}  // namespace understudy
