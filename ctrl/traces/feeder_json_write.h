// Writing the JSON form that Chakra's feeder reads (feeder_json.h reads it).
#pragma once

#include <cstdint>
#include <ostream>

#include "collective_model/traces/trace_graph.h"

namespace understudy {

/// One node a line, in the order of their ids; parents that are not in the graph are written too. Keys that a
/// node has no value for are left out, but for those that the feeder demands of communications. What is read
/// again is an equal graph, where names are UTF-8. `more`: added to all ids.
void write_feeder_json(const TraceGraph& graph, std::ostream& to, uint64_t more = 0);

}  // namespace understudy
