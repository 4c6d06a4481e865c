// What a change of a node's links is in a network: its cables, both directions of each.
#pragma once

#include <vector>

#include "ctrl/build/topology.h"
#include "ctrl/config/config.h"

namespace understudy {

/// All cables that join a node's NICs to switches of the network, in the direction to these.
std::vector<LinkId> cables_of(const Topology& topology, NodeId node);

/// [[event]], in order of time.
std::vector<RateChange> link_changes(const Config& config, const Topology& topology);

}  // namespace understudy
