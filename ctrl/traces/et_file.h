// Execution traces as files of protobuf messages: PREFIX.RANK.et of mlcommons/chakra, schema 0.0.4 and
// 1.0.0. A file is a sequence of (length, message): metadata, then nodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "collective_model/traces/trace_graph.h"

namespace understudy {

/// The name of the attribute, and of the key in JSON, that keeps a duration which is no whole number of
/// microseconds. Other programs pass over it and take the microseconds.
inline constexpr char kDurationNs[] = "duration_ns";

/// Whether this build reads such files: it was made with protobuf.
bool reads_et();

/// `name` is that of the file, for errors. They name byte and node too: of a file that ends early, of
/// older schemas, of attributes of a type that does not fit. Fields and attributes that have no effect
/// on a replay are passed over.
Result<TraceGraph> read_et(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace understudy
