#include "ctrl/traces/feeder_json_write.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "ctrl/traces/et_file.h"

namespace understudy {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson ids_json(const std::vector<uint64_t>& ids, uint64_t more) {
  OrderedJson list = OrderedJson::array();
  for (const uint64_t id : ids) list.push_back(id + more);
  return list;
}

OrderedJson node_json(const TraceNodeParents& parts, uint64_t more) {
  const TraceNode& node = parts.node;
  OrderedJson json = {{"Id", node.id + more},
                      {"Name", node.name},
                      {"NodeType", static_cast<int>(node.kind)},
                      {"is_cpu_op", node.on_cpu},
                      {"runtime", node.duration_us}};
  if (node.more_ns > 0) json[kDurationNs] = node.duration_ns();
  json["data_deps"] = ids_json(parts.data, more);
  json["ctrlDeps"] = ids_json(parts.control, more);
  if (node.operations > 0) json["num_ops"] = node.operations;
  const bool communicates = node.kind >= TraceNodeKind::kSend;
  if (communicates || node.tensor_bytes > 0) json["tensor_size"] = node.tensor_bytes;
  if (node.collective) json["comm_type"] = static_cast<int>(*node.collective);
  if (communicates) json["comm_priority"] = 0;
  if (node.bytes) json["comm_size"] = *node.bytes;
  if (node.source) json["comm_src"] = *node.source;
  if (node.destination) json["comm_dst"] = *node.destination;
  if (communicates || node.tag > 0) json["comm_tag"] = node.tag;
  if (!node.group.empty()) json["pg_name"] = node.group;
  if (!node.dimensions.empty()) json["involved_dim"] = node.dimensions;
  return json;
}

}  // namespace

void write_feeder_json(const TraceGraph& graph, std::ostream& to, uint64_t more) {
  to << "{\"workload_graph\": [";
  bool first = true;
  for (const TraceNodeParents& parts : graph.parts()) {
    to << (first ? "\n" : ",\n")
       << node_json(parts, more).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    first = false;
  }
  to << "\n]}\n";
}

}  // namespace understudy
