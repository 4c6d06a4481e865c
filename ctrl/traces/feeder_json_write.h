// Writing the JSON form that Chakra's feeder reads (feeder_json.h reads it).
#pragma once

#include <ostream>

#include "collective_model/traces/trace_graph.h"

namespace understudy {

/// One node a line, in the order of their ids; parents that are not in the graph are written too. Keys
/// that a node has no value for are left out, but for those that the feeder demands of communications:
/// comm_priority (0) and comm_tag. What is read again is an equal graph, but for `dimensions`, for which
/// the form has no key.
void write_feeder_json(const TraceGraph& graph, std::ostream& to);

}  // namespace understudy
