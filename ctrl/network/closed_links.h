// Links that stay closed, named: what keeps flows and jobs from their ends.
#pragma once

#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "dataplane/fabric/network.h"

namespace understudy {

/// Those through which nothing comes any more, unless they change again: down, losing all, or at a
/// NIC that stands still.
std::vector<std::string> closed_links(const Graph& graph, const Network& network, Time now);
/// The same of nodes without a network, after these events: "w0".
std::vector<std::string> closed_nodes(const Config& config, const std::vector<EventConfig>& events,
                                      Time now);

/// The last time at which an outage that the graph knows begins or ends.
Time last_known_outage(const Graph& graph);

/// "3 of 4 flows never end: ", before a reason.
std::string flows_never_end(size_t left, size_t all);
/// "nothing comes through leaf0 -> spine1, ..."; empty: all links are open.
std::string closed_links_text(const std::vector<std::string>& links);

}  // namespace understudy
