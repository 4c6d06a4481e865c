// The communicator that a test is about: releases, ranks, nodes, and what the real ones' machines
// are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/base/address.h"
#include "tools/nccl_decode/layout.h"

namespace understudy::nccl_rank {

struct World {
  nccl_decode::Release release{28, 9};
  struct Rank {
    bool real = false;
    int node = 0;
  };
  std::vector<Rank> ranks;
  int channels = 1;          ///< NCCL_MAX_NCHANNELS
  int search_channels = 1;   ///< that the topology search finds; NCCL doubles them
  bool lazy = false;         ///< cuMem, so that 2.22 and later connect at the first use
  bool registration = true;  ///< NCCL_LOCAL_REGISTER or NCCL_GRAPH_REGISTER
  int nvls_channels = 0;
  bool split_tree = false;  ///< of nodes with several GPUs, else balanced trees
  int queue_pairs = 1;      ///< NCCL_IB_QPS_PER_CONNECTION
  /// Devices that NCCL takes for one, of real and emulated nodes.
  int real_devices = 1, emulated_devices = 1;
  bool split_data = false;  ///< NCCL_IB_SPLIT_DATA_ON_QPS
  /// NCCL_IB_RESILIENCY_PORT_FAILOVER and _RECOVERY: the two ends of a connection have further queue
  /// pairs then.
  bool failover = false, recovery = false;
  int traffic_class = 0;
  uint64_t magic = 0x1122334455667788;

  int size() const { return static_cast<int>(ranks.size()); }
  const nccl_decode::Layout& layout() const { return *nccl_decode::layout_of(release); }
  bool real(int rank) const { return ranks[static_cast<size_t>(rank)].real; }
  int node(int rank) const { return ranks[static_cast<size_t>(rank)].node; }
  /// All ranks of a rank's node, ascending.
  std::vector<int> local(int rank) const {
    std::vector<int> out;
    for (int r = 0; r < size(); ++r) {
      if (node(r) == node(rank)) out.push_back(r);
    }
    return out;
  }
  std::vector<IpAddress> addresses;  ///< of the nodes; without, those of address()
  /// A rank's NIC, as net_ib tells of it.
  struct Nic {
    std::vector<IpAddress> gids;  ///< of the devices that it is made of
    int first = 0;                ///< the first one's number in the node; the others follow
  };
  std::vector<Nic> nics;  ///< of the ranks; without, each has the node's first one, as addresses
  /// Of a node: out of band and, as its first device's GID, on the wire.
  IpAddress address_of(int node) const {
    return addresses.empty() ? address(node) : addresses[static_cast<size_t>(node)];
  }
  static IpAddress address(int node, int device = 0) {
    return IpAddress::v4(0x0a010000 + static_cast<uint32_t>(node + device * 0x1000));
  }
  /// Up to 2.23 an emulated rank tells of no more devices than a real one.
  Nic nic(int rank) const {
    Nic nic;
    if (!nics.empty()) {
      nic = nics[static_cast<size_t>(rank)];
    } else {
      nic.gids = {address_of(node(rank))};
      const int devices = real(rank) ? real_devices : emulated_devices;
      for (int d = 1; d < devices; ++d) nic.gids.push_back(address(node(rank), d));
    }
    const auto most = static_cast<size_t>(real_devices);
    if (layout().ib.list_bytes == 0 && nic.gids.size() > most) nic.gids.resize(most);
    return nic;
  }
  /// Of a side with `own` devices, the other having `theirs` (source: p2p_resiliency.cc).
  size_t probing(bool sends, size_t own, size_t theirs) const {
    return !failover ? 0 : sends ? own : theirs;
  }
  size_t recovering(size_t own, size_t theirs) const {
    return failover && recovery ? std::max(own, theirs) : 0;
  }
  /// Queue pairs of a connection between real and emulated ranks.
  int connection_queue_pairs() const {
    const bool told = layout().ib.list_bytes != 0;
    return queue_pairs * (told ? std::max(real_devices, emulated_devices) : real_devices);
  }
};

/// `count` ranks of which each node has `per_node`; those of the nodes in `real` are real.
inline World make_world(int count, int per_node, const std::vector<int>& real) {
  World world;
  for (int rank = 0; rank < count; ++rank) {
    World::Rank entry;
    entry.node = rank / per_node;
    for (int node : real) entry.real |= node == entry.node;
    world.ranks.push_back(entry);
  }
  return world;
}

}  // namespace understudy::nccl_rank
