// What GPUs cost an operation, as measured: the constants of a [calibration] section.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collective_model/tuner/tuning_constants.h"

namespace understudy {

/// Of one protocol. A rate of 0 is unlimited: the default costs nothing. What `calibrate` finds has
/// `step` for Simple, and `pass` instead of `round` for LL128.
struct ProtocolCost {
  double round = 0;            ///< us: one pass of all threads of a channel over what they hold
  double rate = 0;             ///< GB/s of a channel, on top of the rounds
  double latency = 0;          ///< us: from one GPU's step to the next one's, inside a node
  double network_latency = 0;  ///< us: the same between nodes, beyond the network's own latency
  double step = 0;             ///< us of each step besides, which no other slice's work hides
  /// us of LL128: what each pass of all warps over their pieces takes on top of the rate. The next
  /// GPU then follows one pass behind; without it, one chunk.
  double pass = 0;
};

/// What rows of one number of GPUs in one node say of it alone, for those operations from a size on:
/// they take `scale` times what the other constants give, and `offset`.
struct OwnCost {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  NcclVersion version;
  GpuGeneration gpu = GpuGeneration::kAmpere;
  uint32_t ranks = 2;
  uint64_t from = 0;  ///< bytes
  double scale = 1;
  double offset = 0;  ///< us, may be negative
};

struct Calibration {
  double launch = 0;  ///< us of every operation
  /// Share of a step's cost that the last copy of a loop adds, as no later step hides it.
  double tail = 0;
  /// Steps of a ring after which its channels are so far out of step that only 1/e of the tail is
  /// left: they fill each other's pauses. 0: they stay in step.
  double drift = 0;
  /// GB/s of a channel that its NVLinks let through, whatever the protocol. 0: unlimited, as behind
  /// NVSwitches, where the GPUs' own work comes first. Channels that share a link fill each other's
  /// pauses, so that the tail does not count where links are the limit.
  double link = 0;
  std::array<ProtocolCost, kProtocols> protocol;  ///< as Protocol numbers them
  std::vector<OwnCost> own;
  const ProtocolCost& of(Protocol p) const { return protocol[index(p)]; }
};

}  // namespace understudy
