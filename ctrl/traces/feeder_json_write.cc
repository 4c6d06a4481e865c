#include "ctrl/traces/feeder_json_write.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace understudy {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::vector<uint64_t> parents_of(const TraceGraph& graph, const TraceEdges& edges, uint32_t node) {
  std::vector<uint64_t> ids;
  for (uint32_t e = edges.first[node]; e < edges.first[node + 1]; ++e) {
    ids.push_back(graph.nodes()[edges.parents[e]].id);
  }
  return ids;
}

OrderedJson json_of(const TraceNode& node) {
  OrderedJson json = {{"Id", node.id},
                      {"Name", node.name},
                      {"NodeType", static_cast<int>(node.kind)},
                      {"is_cpu_op", node.on_cpu},
                      {"runtime", node.duration_us}};
  if (node.operations > 0) json["num_ops"] = node.operations;
  if (node.tensor_bytes > 0) json["tensor_size"] = node.tensor_bytes;
  if (node.kind != TraceNodeKind::kCollective && node.kind != TraceNodeKind::kSend &&
      node.kind != TraceNodeKind::kReceive) {
    return json;
  }
  if (node.collective) json["comm_type"] = static_cast<int>(*node.collective);
  json["comm_priority"] = 0;
  if (node.bytes) json["comm_size"] = *node.bytes;
  if (node.source) json["comm_src"] = *node.source;
  if (node.destination) json["comm_dst"] = *node.destination;
  json["comm_tag"] = node.tag;
  if (!node.group.empty()) json["pg_name"] = node.group;
  return json;
}

}  // namespace

void write_feeder_json(const TraceGraph& graph, std::ostream& to) {
  to << "{\"workload_graph\": [";
  auto dangling = graph.dangling().begin();
  for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
    std::vector<uint64_t> data = parents_of(graph, graph.data(), i);
    std::vector<uint64_t> control = parents_of(graph, graph.control(), i);
    for (; dangling != graph.dangling().end() && dangling->node == i; ++dangling) {
      (dangling->control ? control : data).push_back(dangling->parent_id);
    }
    OrderedJson json = json_of(graph.nodes()[i]);
    json["data_deps"] = data;
    json["ctrlDeps"] = control;
    to << (i == 0 ? "\n" : ",\n")
       << json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  }
  to << "\n]}\n";
}

}  // namespace understudy
