// Text workloads of ASTRA-sim 1.0: a strategy, a number of layers, and per layer what its forward,
// input-gradient and weight-gradient computations take and which collectives follow them. The graph is
// that of Chakra's converter (mlcommons/chakra, src/converter/text_converter.py, 21585d8), which reads
// times as microseconds.
#pragma once

#include <cstdint>
#include <string>

#include "collective_model/traces/trace_graph.h"

namespace understudy {

/// What every rank does, `passes` iterations; ids are those of the first rank. `name` is that of the
/// file, for errors, which name the line too.
Result<TraceGraph> read_text_workload(const std::string& text, const std::string& name,
                                      uint32_t passes);

}  // namespace understudy
