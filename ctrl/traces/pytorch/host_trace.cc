#include "ctrl/traces/pytorch/host_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "ctrl/traces/pytorch/host_values.h"
#include "ctrl/traces/pytorch/json_items.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchemas[] = {"1.0.1",
                                    "1.0.2-chakra.0.0.4",
                                    "1.0.3-chakra.0.0.4",
                                    "1.0.4-chakra.0.0.4",
                                    "1.1.0-chakra.0.0.4",
                                    "1.1.1-chakra.0.0.4"};

constexpr const char* kProcessRoots[] = {"[pytorch|profiler|execution_graph|process]",
                                         "[pytorch|profiler|execution_trace|process]"};
constexpr const char* kThreadRoots[] = {"[pytorch|profiler|execution_graph|thread]",
                                        "[pytorch|profiler|execution_trace|thread]"};
constexpr const char* kCpuBackends[] = {"gloo:", "mpi:", "ucc:"};
constexpr const char* kGpuBackends[] = {"nccl:", "rccl:", "xccl:", "hccl:"};

bool starts_as_one_of(const std::string& name, std::span<const char* const> words) {
  return std::any_of(words.begin(), words.end(),
                     [&name](const char* word) { return name.starts_with(word); });
}

HostNodeKind kind_of(const std::string& name, uint64_t scope) {
  constexpr uint64_t kUserScope = 7;  // ATen's RecordScope::USER_SCOPE
  if (starts_as_one_of(name, kProcessRoots)) return HostNodeKind::kProcess;
  if (starts_as_one_of(name, kThreadRoots)) return HostNodeKind::kThread;
  if (name.find("process_group:init") != std::string::npos) return HostNodeKind::kProcessGroups;
  if (name.find("record_param_comms") != std::string::npos) return HostNodeKind::kRecord;
  if (name.starts_with("c10d::") && communication_of(name)) return HostNodeKind::kOperation;
  if ((communicates_on_cpu(name) || starts_as_one_of(name, kGpuBackends)) &&
      communication_of(name)) {
    return HostNodeKind::kMark;
  }
  return scope == kUserScope ? HostNodeKind::kAnnotation : HostNodeKind::kOperator;
}

/// A node's JSON, key by key.
class NodeKeys {
 public:
  explicit NodeKeys(const Json& json) : json_(json) {
    const auto attributes = json.find("attrs");
    if (attributes == json.end() || !attributes->is_array()) return;
    for (const Json& one : *attributes) {
      if (!one.is_object()) continue;
      const auto name = one.find("name"), value = one.find("value");
      if (name == one.end() || value == one.end() || !name->is_string()) continue;
      attributes_[name->get<std::string>()] = &*value;
    }
  }

  Result<uint64_t> whole(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return fail(std::string(key) + " is missing");
    if (!value->is_number_integer() ||
        (!value->is_number_unsigned() && value->get<int64_t>() < 0)) {
      return fail(std::string(key) + " is not a whole number of 0 or more");
    }
    return value->get<uint64_t>();
  }
  Result<uint64_t> whole(const char* key, uint64_t otherwise) const {
    return find(key) == nullptr ? Result<uint64_t>(otherwise) : whole(key);
  }
  /// From schema 1.0.2 on, the node that it is called by is ctrl_deps.
  Result<uint64_t> caller() const {
    return whole(json_.contains("parent") ? "parent" : "ctrl_deps");
  }
  Result<HostValues> values() const {
    HostValues values;
    values.attributes = attributes_;
    TRY(take_lists("inputs", "input_types", values.inputs, values.input_types));
    TRY(take_lists("outputs", "output_types", values.outputs, values.output_types));
    return values;
  }

 private:
  /// Of the node, or an attribute of it.
  const Json* find(const char* key) const {
    const auto own = json_.find(key);
    if (own != json_.end()) return &*own;
    const auto attribute = attributes_.find(key);
    return attribute == attributes_.end() ? nullptr : attribute->second;
  }

  /// Until 1.0.1 two lists of the node; later one object {values, types}.
  Result<void> take_lists(const char* key, const char* types_key, const Json*& values,
                          const Json*& types) const {
    static const Json kNothing = Json::array();
    values = types = &kNothing;
    const auto found = json_.find(key);
    if (found == json_.end()) return {};
    const Json* inner = &*found;
    if (inner->is_object()) {
      const auto list = found->find("values"), list_types = found->find("types");
      if (list == found->end()) return fail(std::string(key) + " has no values");
      inner = &*list;
      if (list_types != found->end()) types = &*list_types;
    } else if (json_.contains(types_key)) {
      types = &json_[types_key];
    }
    if (!inner->is_array()) return fail(std::string(key) + " is not a list");
    if (!types->is_array()) return fail("types of " + std::string(key) + " are not a list");
    values = inner;
    return {};
  }

  const Json& json_;
  std::map<std::string, const Json*> attributes_;
};

class HostReader {
 public:
  Result<void> key(const std::string& key) const {
    if (key == "traceEvents") {
      return fail("this is a device trace (Kineto's traceEvents), not a host trace");
    }
    if (key == "workload_graph") {
      return fail("this is the JSON of Chakra's feeder, not a host trace of PyTorch");
    }
    return {};
  }

  Result<void> other(const std::string& key, const Json& value) {
    if (key == "schema") return take_schema(value);
    if (key == "pid" && value.is_number_unsigned()) trace_.process = value.get<uint64_t>();
    return {};
  }

  Result<void> item(const Json& item) {
    if (!item.is_object()) return fail("a node is not an object");
    if (item.contains("ph")) {
      return fail("this is an event of a device trace, not a node of a host trace");
    }
    HostNode node;
    const auto taken = take_node(item, node);
    if (!taken) {
      return fail((item.contains("id") ? title_of(node) : std::string("a node")) + ": " +
                  taken.error().text);
    }
    trace_.nodes.push_back(std::move(node));
    return {};
  }

  Result<HostTrace> finish(const JsonItemsRead& read) {
    if (trace_.schema.empty() || !read.has_list || read.bare_list) {
      return fail("this is no host trace of PyTorch: it has no schema with a list of nodes");
    }
    if (trace_.nodes.empty()) return fail("the trace has no nodes");
    TRY(order_nodes());
    TRY(link_callers());
    return std::move(trace_);
  }

 private:
  Result<void> take_schema(const Json& value) {
    if (!value.is_string()) return fail("schema is not a string");
    trace_.schema = value.get<std::string>();
    for (const char* known : kSchemas) {
      if (trace_.schema == known) return {};
    }
    return fail("the schema '" + trace_.schema +
                "' is not covered: 1.0.1, and 1.0.2-chakra.0.0.4, 1.0.3-, 1.0.4-, 1.1.0- and "
                "1.1.1-chakra.0.0.4 are");
  }

  Result<void> take_node(const Json& item, HostNode& node) {
    const NodeKeys keys(item);
    node.id = TRY(keys.whole("id"));
    const auto name = item.find("name");
    if (name == item.end() || !name->is_string()) return fail("name is missing, or no string");
    node.name = name->get<std::string>();
    if (item.contains("cat")) {
      return fail(
          "it is an event of a device: this trace was joined already "
          "(chakra_trace_link); the host trace itself is needed, and the device trace");
    }
    node.parent = TRY(keys.caller());
    node.kind = kind_of(node.name, TRY(keys.whole("scope", 0)));
    node.record_function = TRY(keys.whole("rf_id", 0));
    node.thread = static_cast<int64_t>(TRY(keys.whole("tid", 0)) & ~(uint64_t{1} << 63));
    const HostValues values = TRY(keys.values());
    TRY(take_tensors(values, node));
    const auto place = static_cast<uint32_t>(trace_.nodes.size());
    if (node.kind == HostNodeKind::kProcessGroups) {
      for (HostGroup& group : groups_of(values)) trace_.groups.push_back(std::move(group));
    } else if (node.kind == HostNodeKind::kOperation || node.kind == HostNodeKind::kRecord ||
               node.kind == HostNodeKind::kMark) {
      auto call = TRY(call_of(node, values));
      if (call) {
        call->node = place;
        trace_.calls.push_back(*std::move(call));
      }
    }
    return {};
  }

  /// Nodes are written when they end, callers after what they call.
  Result<void> order_nodes() {
    std::vector<uint32_t> order(trace_.nodes.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [this](uint32_t a, uint32_t b) { return trace_.nodes[a].id < trace_.nodes[b].id; });
    std::vector<HostNode> sorted;
    std::vector<uint32_t> place(order.size());
    sorted.reserve(order.size());
    for (const uint32_t i : order) {
      if (!sorted.empty() && sorted.back().id == trace_.nodes[i].id) {
        return fail(title_of(trace_.nodes[i]) + ": another node has the same id");
      }
      place[i] = static_cast<uint32_t>(sorted.size());
      sorted.push_back(std::move(trace_.nodes[i]));
    }
    trace_.nodes = std::move(sorted);
    for (HostCall& call : trace_.calls) call.node = place[call.node];
    std::sort(trace_.calls.begin(), trace_.calls.end(),
              [](const HostCall& a, const HostCall& b) { return a.node < b.node; });
    return {};
  }

  Result<void> link_callers() {
    const auto& nodes = trace_.nodes;
    trace_.parents.reserve(nodes.size());
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      const uint64_t id = nodes[i].kind == HostNodeKind::kProcess ? nodes[i].id : nodes[i].parent;
      if (id == nodes[i].id && nodes[i].kind != HostNodeKind::kProcess) {
        return fail(title_of(nodes[i]) + ": it is called by itself");
      }
      const auto found =
          std::lower_bound(nodes.begin(), nodes.end(), id,
                           [](const HostNode& node, uint64_t wanted) { return node.id < wanted; });
      if (found == nodes.end() || found->id != id) {
        return fail(title_of(nodes[i]) + ": its caller is node " + std::to_string(id) +
                    ", which is not there");
      }
      trace_.parents.push_back(static_cast<uint32_t>(found - nodes.begin()));
    }
    return refuse_circles();
  }

  Result<void> refuse_circles() const {
    enum : uint8_t { kNew, kOnTheWay, kDone };
    std::vector<uint8_t> state(trace_.nodes.size(), kNew);
    std::vector<uint32_t> way;
    for (uint32_t start = 0; start < state.size(); ++start) {
      uint32_t at = start;
      way.clear();
      while (state[at] == kNew) {
        state[at] = kOnTheWay;
        way.push_back(at);
        if (trace_.parents[at] == at) break;  // a root
        at = trace_.parents[at];
      }
      if (state[at] == kOnTheWay && trace_.parents[at] != at) {
        return fail("nodes call one another in a circle: " + title_of(trace_.nodes[at]) +
                    " is called by " + title_of(trace_.nodes[trace_.parents[at]]));
      }
      for (const uint32_t node : way) state[node] = kDone;
    }
    return {};
  }

  HostTrace trace_;
};

}  // namespace

const char* name_of(HostNodeKind kind) {
  switch (kind) {
    case HostNodeKind::kProcess:
      return "process";
    case HostNodeKind::kThread:
      return "thread";
    case HostNodeKind::kProcessGroups:
      return "process groups";
    case HostNodeKind::kOperation:
      return "communication";
    case HostNodeKind::kRecord:
      return "record of communication";
    case HostNodeKind::kMark:
      return "mark of communication";
    case HostNodeKind::kAnnotation:
      return "annotation";
    case HostNodeKind::kOperator:
      return "operator";
  }
  return "?";
}

std::string title_of(const HostNode& node) {
  TraceNode titled;
  titled.id = node.id;
  titled.name = node.name;
  return title_of(titled);
}

bool communicates_on_cpu(const std::string& mark) { return starts_as_one_of(mark, kCpuBackends); }

bool looks_like_host_trace(std::string_view beginning) {
  const auto has = [beginning](const char* key) {
    return beginning.find(key) != std::string_view::npos;
  };
  return beginning.substr(0, beginning.find_first_not_of(" \t\r\n") + 1).ends_with('{') &&
         has("\"schema\"") && !has("\"workload_graph\"") && !has("\"traceEvents\"");
}

Result<HostTrace> read_host_trace(std::istream& file, const std::string& name) {
  HostReader reader;
  const JsonItemsSink sink = {
      [&](const std::string& key) { return reader.key(key); },
      [&](Json&& item, uint64_t /*byte*/) { return reader.item(item); },
      [&](const std::string& key, Json&& value) { return reader.other(key, value); }};
  auto trace = reader.finish(TRY(read_json_items(file, name, "nodes", sink)));
  if (!trace) return fail(name + ": " + trace.error().text);
  return trace;
}

}  // namespace understudy
