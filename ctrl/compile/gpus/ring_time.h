// What operations of GPUs take within a node, and beside the passing of their bytes over the network.
#pragma once

#include <cstdint>

#include "collective_model/training/messages.h"
#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/collective/packet_level_ranks.h"

namespace understudy {

/// What a message within a node takes, of so many bytes; an operation of `ranks` GPUs there, as a ring, an
/// all-to-all as one message to all others. Zero where the inside of nodes has no time.
Duration inside_time(const Config& config, TrainingTransfer transfer, double bytes, uint32_t ranks);

/// Of a ring of so many ranks, one after another.
int64_t ring_steps(TrainingTransfer transfer, uint32_t ranks);

/// The hops that a part of the bytes takes around a ring.
struct RingHops {
  uint32_t members = 1, channels = 1;
  int64_t steps = 0;   ///< over the network
  int64_t inside = 0;  ///< within nodes, between those
};
/// Of an operation whose bytes go as one flow for all steps of its ring: what it takes besides. First messages
/// wait for credits, and each hop for a latency that the slices behind the first one do not cover. `routes` are
/// the topology's, `way` one of the ring's connections over the network.
Duration steps_time(const Config& config, const Topology& topology, Routes& routes,
                    const MessageWays::Way& way, TrainingTransfer transfer, uint64_t bytes,
                    const RingHops& ring);

}  // namespace understudy
