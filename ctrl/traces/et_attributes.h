// Attributes of a node of an execution trace. Writers do not agree on their types: every type of
// integers is read.
#pragma once

#include "collective_model/traces/trace_graph.h"
#include "ctrl/traces/execution_trace.pb.h"

namespace understudy {

/// Takes what has an effect over into `node`; what does not is passed over. An error names attribute
/// and type.
Result<void> take_attributes(const et::Node& from, TraceNode& node);

}  // namespace understudy
