// Host traces of PyTorch: what the CPU of a rank called, as torch's execution trace observer writes it
// (torch/csrc/profiler/standalone/execution_trace_observer.cpp; ExecutionGraphObserver of PyTorch 1.13).
// They have no times.
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective_model/traces/trace_graph.h"
#include "dataplane/base/result.h"

namespace understudy {

/// A tensor as a value of a node: [tensor, storage, offset, elements, bytes of an element, device]. Ids
/// are reused as memory is: they name a tensor at one moment, not in the whole run.
struct HostTensor {
  uint64_t tensor = 0, storage = 0;
  uint64_t elements = 0, element_bytes = 0;

  uint64_t bytes() const { return elements * element_bytes; }
  bool operator==(const HostTensor&) const = default;
};

/// What a node is, by its name.
enum class HostNodeKind : uint8_t {
  kProcess,        ///< root of all
  kThread,         ///< root of a thread
  kProcessGroups,  ///< which communicators there are
  kOperation,      ///< a communication that was called: c10d::allreduce_
  kRecord,         ///< what a back end notes of one: record_param_comms
  kMark,           ///< that a back end carries one out: gloo:all_reduce, nccl:all_reduce
  kAnnotation,     ///< of the user, an optimizer, DDP (scope 7)
  kOperator,       ///< all others
};
inline constexpr uint8_t kHostNodeKinds = 8;

/// "process", "operator".
const char* name_of(HostNodeKind kind);

struct HostNode {
  uint64_t id = 0;
  uint64_t parent = 0;  ///< id of the caller
  std::string name;
  HostNodeKind kind = HostNodeKind::kOperator;
  uint64_t record_function = 0;  ///< number that events of the device trace have too; 0: none
  int64_t thread = 0;
  uint64_t input_bytes = 0, output_bytes = 0;  ///< of tensors
  uint32_t input_tensors = 0, output_tensors = 0;
};

/// What kOperation, kRecord and kMark say of a communication.
struct HostCall {
  uint32_t node = 0;  ///< place in the nodes
  TraceNodeKind kind = TraceNodeKind::kCollective;
  std::optional<TraceCollective> collective;
  /// kRecord of something that is no communication: of a wait, of a communicator's beginning.
  bool is_none = false;
  std::optional<uint64_t> bytes;  ///< as TraceNode::bytes; nothing: no tensor says
  std::optional<HostTensor> first_tensor;
  std::string group;             ///< communicator's name, "" if it is not said
  uint64_t group_handle = 0;     ///< until schema 1.0.2 in its place; 0: none
  std::optional<uint32_t> rank;  ///< of this process in the group
  std::optional<uint32_t> peer;  ///< kSend, kReceive: rank in the group
  uint32_t tag = 0;              ///< kSend, kReceive
  /// Ranks of the group as first, step and number (from schema 1.1.0 on).
  std::optional<std::array<uint32_t, 3>> ranks;
};

/// A communicator, from a node process_group:init.
struct HostGroup {
  std::string name, description;
  uint64_t handle = 0;
  std::vector<uint32_t> ranks;   ///< empty: all of the job
  std::optional<uint32_t> size;  ///< number of ranks
};

struct HostTrace {
  std::string schema;
  uint64_t process = 0;           ///< its id
  std::vector<HostNode> nodes;    ///< by id, callers before what they call
  std::vector<uint32_t> parents;  ///< places of the callers; of a root its own
  std::vector<HostCall> calls;    ///< by node
  std::vector<HostGroup> groups;
};

/// Schemas 1.0.1 and 1.0.2-chakra.0.0.4 to 1.1.1-chakra.0.0.4. `name` is that of the file, for errors.
/// They name byte or node: of other schemas, of a file that is something else or ends early, of keys
/// that are missing or of another type, of ids that occur twice, of callers that are not there, of
/// nodes that call one another in a circle.
Result<HostTrace> read_host_trace(std::istream& file, const std::string& name);

/// Whether a mark's back end communicates within it, in a thread of its own: gloo:, mpi:, ucc:. Others
/// start kernels.
bool communicates_on_cpu(const std::string& mark);

/// By a file's first bytes.
bool looks_like_host_trace(std::string_view beginning);

/// "node 7 (aten::mm)".
std::string title_of(const HostNode& node);

}  // namespace understudy
