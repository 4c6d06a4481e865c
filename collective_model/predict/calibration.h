// What GPUs cost an operation, as measured: the constants of a [calibration] section.
#pragma once

#include <array>

#include "collective_model/tuner/tuning_constants.h"

namespace understudy {

/// Of one protocol. A rate of 0 is unlimited: the default costs nothing.
struct ProtocolCost {
  double round = 0;            ///< us: one pass of all threads of a channel over what they hold
  double rate = 0;             ///< GB/s of a channel, on top of the rounds
  double latency = 0;          ///< us: from one GPU's step to the next one's, inside a node
  double network_latency = 0;  ///< us: the same between nodes, beyond the network's own latency
};

struct Calibration {
  double launch = 0;  ///< us of every operation
  /// Share of a step's cost that the last copy of a loop adds, as no later step hides it.
  double tail = 0;
  std::array<ProtocolCost, kProtocols> protocol;  ///< as Protocol numbers them
  const ProtocolCost& of(Protocol p) const { return protocol[index(p)]; }
};

}  // namespace understudy
