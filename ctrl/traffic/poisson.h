// Flows that start at random times, are of random sizes, and go to random receivers.
#pragma once

#include <cstdint>
#include <vector>

#include "ctrl/config/config.h"

namespace understudy {

struct Arrival {
  Duration at;  ///< after time zero
  NodeId from = 0, to = 0;
  uint64_t bytes = 0;
};

/// The flows of a table with this pattern, in order of time. Each sender has a Poisson process of
/// its own, at the rate that gives its link the table's load. What is drawn for a flow depends on
/// the seed, `stream`, the sender and the flow's number among those of its sender, and on nothing
/// else: neither other senders nor the load change its size and receiver.
std::vector<Arrival> poisson_arrivals(const Config& config, const TrafficConfig& traffic,
                                      uint64_t stream);

}  // namespace understudy
