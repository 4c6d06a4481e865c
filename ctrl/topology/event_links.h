// Which links of a network an event is about.
#pragma once

#include <vector>

#include "ctrl/config/events/event_config.h"
#include "ctrl/topology/topology.h"

namespace understudy {

/// The links that an event of links, of a switch or of a node is about.
std::vector<LinkId> links_of(const EventConfig& event, const Topology& topology);

}  // namespace understudy
