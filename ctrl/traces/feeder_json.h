// The JSON form that Chakra's feeder reads: {"workload_graph": [{"Id", "Name", "NodeType", ...}]}.
#pragma once

#include <string>

#include "collective_model/traces/trace_graph.h"

namespace understudy {

/// `name` is that of the file, for errors; they name node and key.
Result<TraceGraph> read_feeder_json(const std::string& text, const std::string& name);

}  // namespace understudy
