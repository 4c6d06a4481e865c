// The execution trace of a rank from its host trace, with or without its device trace.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/traces/trace_graph.h"
#include "ctrl/traces/pytorch/device_trace.h"
#include "ctrl/traces/pytorch/host_communications.h"
#include "ctrl/traces/pytorch/host_trace.h"
#include "ctrl/traces/pytorch/trace_join.h"

namespace understudy {

/// A communicator of the job.
struct RankGroup {
  std::string id;               ///< in the execution trace; "": all ranks
  std::vector<uint32_t> ranks;  ///< empty: all
};

/// What is known of a rank.
struct RankTraces {
  HostTrace host;
  std::vector<HostCommunication> communications;
  std::optional<DeviceTrace> device;
  std::optional<JoinedTraces> joined;       ///< with `device`
  std::map<std::string, RankGroup> groups;  ///< by the name in the traces
};

struct RankGraph {
  TraceGraph graph;
  uint64_t operations = 0;  ///< nodes on the CPU
  uint64_t timed = 0;       ///< of them with an event of the device trace
  uint64_t kernels = 0;     ///< that compute, or copy
  uint64_t kernels_that_communicate = 0;
  uint64_t communications_without_kernel = 0;
  uint64_t left_out = 0;  ///< nodes of the host trace without an edge, roots, lists of groups
  uint64_t guessed = 0;   ///< kernels SendRecv of which nothing says what they send: all-to-alls
};

/// Nodes, by the rules of mlcommons/chakra 21585d8 (src/trace_link/trace_linker.py,
/// src/converter/pytorch_converter.py), which trace_join.h numbers:
/// 5. Each kernel is a node with an id after all of the host trace, by operation and start; it is
///    called by its operation, from which its bytes are (the sum of the tensors that go in).
/// 6. A node's duration is its own time, cut to whole microseconds; 0 of Optimizer.step, which covers
///    most of an iteration. Kernels ncclKernel* and ncclDevKernel* communicate: which collective, their
///    names say, or what was called; SendRecv are sends, receives and all-to-alls.
/// 7. Data dependencies follow the calls, depth first by id, in each thread: an operation waits for
///    the one before, a kernel for the operation visited last. Kernels of a stream do not wait for one
///    another. Nodes without any edge are left out; a cycle is an error. Control dependencies are calls.
/// Where no kernel communicates (no device trace; Gloo), a node after the others does so; it takes the
/// time of the back end's mark if that communicates on the CPU (gloo:, mpi:, ucc:). Barriers are
/// all-reduces of one byte. What a rank sends to itself or reduces alone is a computation. Without a
/// device trace every operation waits for the one with the id before its own, whatever its thread: ids
/// count beginnings.
/// Not kept, as no replay carries it out: lists of process groups.
Result<RankGraph> graph_of_rank(const RankTraces& rank);

}  // namespace understudy
