// Execution traces: per rank a graph of what a training job does, as frameworks record it or
// generators write it (mlcommons/chakra, schema/protobuf/et_def.proto). Plain values; readers of the
// files are in ctrl/traces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

/// Numbers are those of the schema's NodeType.
enum class TraceNodeKind : uint8_t {
  kMetadata = 1,
  kMemoryLoad = 2,  ///< from memory beyond the device
  kMemoryStore = 3,
  kCompute = 4,
  kSend = 5,
  kReceive = 6,
  kCollective = 7,
};
inline constexpr uint8_t kTraceNodeKinds = 8;

/// Numbers are those of the schema's CollectiveCommType.
enum class TraceCollective : uint8_t {
  kAllReduce = 0,
  kReduce = 1,
  kAllGather = 2,
  kGather = 3,
  kScatter = 4,
  kBroadcast = 5,
  kAllToAll = 6,
  kReduceScatter = 7,
  kReduceScatterBlock = 8,
  kBarrier = 9,
};
inline constexpr uint8_t kTraceCollectives = 10;

/// "compute", "all-reduce".
const char* name_of(TraceNodeKind kind);
const char* name_of(TraceCollective collective);

struct TraceNode {
  uint64_t id = 0;
  std::string name;
  TraceNodeKind kind = TraceNodeKind::kCompute;
  bool on_cpu = false;
  uint64_t duration_us = 0;   ///< as recorded, of which it is the whole microseconds
  uint16_t more_ns = 0;       ///< of the duration, beyond them: less than 1000
  uint64_t operations = 0;    ///< floating-point operations
  uint64_t tensor_bytes = 0;  ///< that a computation or a memory node moves
  /// kCollective.
  std::optional<TraceCollective> collective;
  /// kCollective: what each rank holds before, of an all-gather what it contributes. kSend, kReceive:
  /// the message.
  std::optional<uint64_t> bytes;
  std::optional<uint32_t> source, destination;  ///< kSend, kReceive
  uint32_t tag = 0;
  std::string group;             ///< communicator's name; "" and "0": all ranks
  std::vector<bool> dimensions;  ///< of the network that take part; empty: all

  /// Of a node whose `duration_us` are those of 500 years at most.
  uint64_t duration_ns() const { return duration_us * 1000 + more_ns; }
  void set_duration_ns(uint64_t ns) {
    duration_us = ns / 1000;
    more_ns = static_cast<uint16_t>(ns % 1000);
  }
  bool operator==(const TraceNode&) const = default;
};

/// Nodes with the ids of those that they wait for.
struct TraceNodeParents {
  TraceNode node;
  std::vector<uint64_t> data, control;
};

/// A parent that is not in the graph.
struct DanglingParent {
  uint32_t node = 0;
  uint64_t parent_id = 0;
  bool control = false;
};

/// Edges to the node at an index: parents[first[index]] to parents[first[index + 1]].
struct TraceEdges {
  std::vector<uint32_t> first;
  std::vector<uint32_t> parents;
};

/// One rank's; ranks that do the same share one. Nodes stand in the order of their ids and are named
/// by their places in it.
class TraceGraph {
 public:
  /// A parent that is named twice counts once. An error names an id that occurs twice.
  static Result<TraceGraph> make(std::vector<TraceNodeParents> nodes);

  const std::vector<TraceNode>& nodes() const { return nodes_; }
  const TraceEdges& data() const { return data_; }
  const TraceEdges& control() const { return control_; }
  const std::vector<DanglingParent>& dangling() const { return dangling_; }
  /// What it was made of, in the order of ids, and of each node the parents too.
  std::vector<TraceNodeParents> parts() const;

 private:
  std::vector<TraceNode> nodes_;
  TraceEdges data_, control_;
  std::vector<DanglingParent> dangling_;
};

/// "node 7 (aten::mm)".
std::string title_of(const TraceNode& node);

/// How nodes wait and which take no time: the rules of two versions of ASTRA-sim, and those of
/// frameworks on GPUs.
enum class TraceRules : uint8_t {
  kFeeder1,  ///< tag tutorial-micro2024 with mlcommons/chakra 214f2c5: data dependencies only
  kFeeder3,  ///< 7e526fb with astra-sim/chakra f37c2bb: data and control dependencies
  /// Data and control dependencies; and one after another, by ids where dependencies leave it open,
  /// what the CPU, the GPU's computing, a communicator, or a direction between two ranks carries out.
  kStreams,
  kDataStreams,  ///< the same of data dependencies alone
};
constexpr bool in_streams(TraceRules rules) {
  return rules == TraceRules::kStreams || rules == TraceRules::kDataStreams;
}

/// What waits for what by given rules.
struct TraceOrder {
  std::vector<uint32_t> parents;  ///< by node: how many it waits for
  std::vector<uint32_t> first;    ///< by node, and one more: where its children begin
  std::vector<uint32_t> children;
  /// Of streams: all nodes, each behind its parents, by their ids where these leave it open.
  std::vector<uint32_t> sequence = {};
};

/// n log n in nodes, linear in edges. An error names a node with a parent that the graph has not, or the
/// nodes of a cycle. Streams leave out control dependencies on nodes that are not there, and
/// nodes that wait for themselves.
Result<TraceOrder> order_trace(const TraceGraph& graph, TraceRules rules);

}  // namespace understudy
