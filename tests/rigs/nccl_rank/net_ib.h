// net_ib's exchange over TCP before its data phase, both sides of it (docs/nccl 2.2 to 2.4).
#pragma once

#include <cstdint>
#include <functional>

#include "tests/rigs/nccl_rank/process.h"
#include "tests/rigs/nccl_rank/world.h"

namespace understudy::nccl_rank {

/// What one side tells of itself.
struct IbSide {
  std::vector<uint32_t> qpns;   ///< q on device q % devices
  std::vector<IpAddress> gids;  ///< of its devices
  int first_device = 0;         ///< number of the first in its node; the others follow
  std::vector<uint32_t> rkeys;  ///< the same
  uint64_t address = 0;         ///< the sender's credits, or where the receiver takes sizes
  uint32_t traffic_class = 0;
  int mtu = 5;  ///< as ibv_mtu
  /// Of port failover and of recovery; q on device q % devices, too.
  std::vector<uint32_t> probing, recovery;
};

/// Called when the peer's side is known, before ours says that it is ready.
using IbReady = std::function<void(const IbSide& theirs)>;

/// The peer's, judged: `peer` is what its NIC must be. A receiver repeats the sender's traffic
/// class, and stops listening unless others are to come (`last`).
Task<IbSide> ib_send(Process& process, const World& world, SocketAddress listener, IbSide own,
                     World::Nic peer, IbReady connected);
Task<IbSide> ib_receive(Process& process, const World& world, ListeningSocket* listener, IbSide own,
                        World::Nic peer, IbReady connected, bool last = true);

}  // namespace understudy::nccl_rank
