// Which links the rings of a job's channels take, by the NICs of the GPUs at the ends of each node's
// chain and the routing's choice, and what a connection between two nodes gets of them.
#pragma once

#include <cstdint>
#include <string>

#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"

namespace understudy {

struct RingNetwork {
  double rate = 0;       ///< bytes per us of the slowest connection when all send; 0: unlimited
  double latency = 0;    ///< us one way, mean of the connections of the slowest channel
  double farthest = 0;   ///< us one way, the longest
  uint32_t sharing = 1;  ///< connections that leave, or come in by, the busiest NIC
  double slowest = 0;    ///< bytes per us of the slowest link; 0: unlimited
  /// A link between switches that carries so many connections that they get less than their NICs
  /// give them; empty: there is none.
  std::string collision;
  double share = 1;        ///< of what their NICs give them that the slowest connections get
  uint32_t colliding = 0;  ///< connections on it
};

/// Of `channels` channels. Without `topology` the nodes' links are the network. `seed` draws paths; hashes are those of
/// a job that is alone: connections are numbered as PacketLevelRanks::add_flows() does.
RingNetwork ring_network(const Config& config, const JobConfig& job, uint32_t channels,
                         const Topology* topology, uint64_t seed);

}  // namespace understudy
