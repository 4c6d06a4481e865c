// What events are to a network: changes of links, both directions of each.
#pragma once

#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/topology/event_links.h"
#include "ctrl/topology/topology.h"
#include "dataplane/wire/pcapng.h"

namespace understudy {

/// What an event of links or of a node does to each of its links, in order of time: one change, or
/// two where it ends by itself. None: it is about traffic.
std::vector<RateChange> steps_of(const EventConfig& event);
/// One of these steps, link by link.
std::vector<RateChange> changes_of(const EventConfig& event, const RateChange& step,
                                   const Topology& topology);

/// The same as a capture holds it: what happens to a node and all its links. None: it is about other
/// links, or traffic.
std::vector<LinkChange> capture_notes(const EventConfig& event);

}  // namespace understudy
