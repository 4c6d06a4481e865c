// Execution traces as files of protobuf messages (et_file.h), written.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "collective_model/traces/trace_graph.h"

namespace understudy {

/// A file of schema 0.0.4 that read_et() reads as an equal graph. Attributes have the types that all
/// versions of Chakra's feeder read: is_cpu_op bool; num_ops, comm_type and comm_size int64; tensor_size
/// uint64; comm_src, comm_dst and comm_tag int32; pg_name a string. `more`: added to all ids. An error
/// names a node with a number that its type cannot hold, and builds without protobuf.
Result<std::string> write_et(const TraceGraph& graph, uint64_t more = 0);

/// The file again, whose every message is decoded and encoded: whatever a TraceGraph does not hold stays.
/// Written by Chakra's generator or converters it has equal bytes where nothing is changed.
/// `change` is given each node and may change its source, destination, group and bytes where they are
/// not empty. `bytes` is a file that read_et() has read.
Result<std::string> rewrite_et(std::span<const uint8_t> bytes,
                               const std::function<void(TraceNode&)>& change);

}  // namespace understudy
