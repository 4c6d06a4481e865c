#include "ctrl/traces/feeder_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "ctrl/traces/et_file.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Json = nlohmann::json;

template <typename T>
Result<T> number(const Json& value, const char* key) {
  if (value.is_boolean()) return static_cast<T>(value.get<bool>());
  if (!value.is_number_integer()) return fail(std::string(key) + " is not an integer");
  if (!value.is_number_unsigned() && value.get<int64_t>() < 0) {
    return fail(std::string(key) + " is less than 0");
  }
  const auto read = value.get<uint64_t>();
  if (read > std::numeric_limits<T>::max()) return fail(std::string(key) + " is too large");
  return static_cast<T>(read);
}

/// Leaves `to` as it is where there is no such key.
template <typename T, typename To>
Result<void> take(const Json& from, const char* key, To& to) {
  const auto found = from.find(key);
  if (found == from.end()) return {};
  to = TRY(number<T>(*found, key));
  return {};
}

Result<void> take_parents(const Json& from, const char* key, std::vector<uint64_t>& to) {
  const auto found = from.find(key);
  if (found == from.end()) return {};
  if (!found->is_array()) return fail(std::string(key) + " is not a list");
  for (const Json& id : *found) to.push_back(TRY(number<uint64_t>(id, key)));
  return {};
}

Result<void> take_node(const Json& from, TraceNodeParents& node) {
  TraceNode& to = node.node;
  if (!from.is_object()) return fail("it is not an object");
  if (!from.contains("Id")) return fail("Id is missing");
  TRY(take<uint64_t>(from, "Id", to.id));
  const auto name = from.find("Name");
  if (name != from.end()) {
    if (!name->is_string()) return fail("Name is not a string");
    to.name = name->get<std::string>();
  }
  if (!from.contains("NodeType")) return fail("NodeType is missing");
  uint64_t type = 0;
  TRY(take<uint64_t>(from, "NodeType", type));
  if (type == 0 || type >= kTraceNodeKinds) {
    return fail("NodeType " + std::to_string(type) + " is not known");
  }
  to.kind = static_cast<TraceNodeKind>(type);
  uint64_t on_cpu = 0;
  TRY(take<uint64_t>(from, "is_cpu_op", on_cpu));
  to.on_cpu = on_cpu != 0;
  TRY(take<uint64_t>(from, "runtime", to.duration_us));
  if (from.contains(kDurationNs)) {
    uint64_t ns = 0;
    TRY(take<uint64_t>(from, kDurationNs, ns));
    to.set_duration_ns(ns);
  }
  TRY(take<uint64_t>(from, "num_ops", to.operations));
  TRY(take<uint64_t>(from, "tensor_size", to.tensor_bytes));
  if (from.contains("comm_type")) {
    uint64_t collective = 0;
    TRY(take<uint64_t>(from, "comm_type", collective));
    if (collective >= kTraceCollectives) {
      return fail("comm_type " + std::to_string(collective) + " is not known");
    }
    to.collective = static_cast<TraceCollective>(collective);
  }
  TRY(take<uint64_t>(from, "comm_size", to.bytes));
  TRY(take<uint32_t>(from, "comm_src", to.source));
  TRY(take<uint32_t>(from, "comm_dst", to.destination));
  TRY(take<uint32_t>(from, "comm_tag", to.tag));
  const auto group = from.find("pg_name");
  if (group != from.end()) {
    if (!group->is_string()) return fail("pg_name is not a string");
    to.group = group->get<std::string>();
  }
  const auto dimensions = from.find("involved_dim");
  if (dimensions != from.end()) {
    const bool bools =
        dimensions->is_array() && !dimensions->empty() &&
        std::ranges::all_of(*dimensions, [](const Json& v) { return v.is_boolean(); });
    if (!bools) return fail("involved_dim is not a list of bools");
    to.dimensions = dimensions->get<std::vector<bool>>();
  }
  TRY(take_parents(from, "data_deps", node.data));
  return take_parents(from, "ctrlDeps", node.control);
}

}  // namespace

Result<TraceGraph> read_feeder_json(const std::string& text, const std::string& name) {
  const auto wrong = [&name](const std::string& what) { return fail(name + ": " + what); };
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return wrong("at byte " + std::to_string(error.byte) + ": this is not JSON");
  } catch (const Json::out_of_range&) {
    return wrong("a number is too large");
  }
  if (json.is_object() && json.contains("nodes") && json.contains("schema")) {
    return wrong(
        "this is a host trace of PyTorch, which `understudy workload import` turns into an "
        "execution "
        "trace");
  }
  if (json.is_array() || (json.is_object() && json.contains("traceEvents"))) {
    return wrong(
        "this is a list of events, as PyTorch's profiler writes them: `understudy workload import` "
        "reads it beside the host trace");
  }
  if (!json.is_object() || !json.contains("workload_graph") || !json["workload_graph"].is_array()) {
    return wrong("there is no list workload_graph, as Chakra's feeder reads it");
  }
  std::vector<TraceNodeParents> nodes;
  for (const Json& from : json["workload_graph"]) {
    TraceNodeParents node;
    const auto taken = take_node(from, node);
    if (!taken) {
      return wrong("node number " + std::to_string(nodes.size() + 1) + " of the list, " +
                   title_of(node.node) + ": " + taken.error().text);
    }
    nodes.push_back(std::move(node));
  }
  auto graph = TraceGraph::make(std::move(nodes));
  if (!graph) return wrong(graph.error().text);
  return graph;
}

}  // namespace understudy
