#include "collective_model/traces/trace_graph.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};

uint32_t place_of(const std::vector<TraceNode>& nodes, uint64_t id) {
  const auto at = std::lower_bound(nodes.begin(), nodes.end(), id,
                                   [](const TraceNode& node, uint64_t i) { return node.id < i; });
  return at != nodes.end() && at->id == id ? static_cast<uint32_t>(at - nodes.begin()) : kNone;
}

/// The cycle that is found from any node with parents left, by ids.
std::string cycle_text(const TraceGraph& graph, const TraceOrder& order,
                       const std::vector<uint32_t>& left) {
  // Each node with parents left has such a parent: going back from one to another must close.
  std::vector<uint32_t> parent(left.size(), kNone);
  uint32_t at = kNone;
  for (uint32_t node = 0; node < left.size(); ++node) {
    if (left[node] == 0) continue;
    at = node;
    for (uint32_t e = order.first[node]; e < order.first[node + 1]; ++e) {
      parent[order.children[e]] = node;
    }
  }
  std::vector<bool> seen(left.size());
  while (!seen[at]) {
    seen[at] = true;
    at = parent[at];
  }
  std::vector<uint32_t> cycle;
  uint32_t member = at;
  do {
    cycle.push_back(member);
    member = parent[member];
  } while (member != at);
  constexpr size_t kShown = 8;
  std::string text = "nodes wait for each other: ";
  for (size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
    if (i > 0) text += " waits for ";
    text += title_of(graph.nodes()[cycle[i]]);
  }
  if (cycle.size() > kShown) {
    return text + " and so on, " + std::to_string(cycle.size()) + " in a cycle";
  }
  return text + (cycle.size() == 1 ? " waits for itself" : ", which waits for the first");
}

}  // namespace

const char* name_of(TraceNodeKind kind) {
  switch (kind) {
    case TraceNodeKind::kMetadata:
      return "metadata";
    case TraceNodeKind::kMemoryLoad:
      return "memory load";
    case TraceNodeKind::kMemoryStore:
      return "memory store";
    case TraceNodeKind::kCompute:
      return "compute";
    case TraceNodeKind::kSend:
      return "send";
    case TraceNodeKind::kReceive:
      return "receive";
    case TraceNodeKind::kCollective:
      return "collective";
  }
  return "?";
}

const char* name_of(TraceCollective collective) {
  switch (collective) {
    case TraceCollective::kAllReduce:
      return "all-reduce";
    case TraceCollective::kReduce:
      return "reduce";
    case TraceCollective::kAllGather:
      return "all-gather";
    case TraceCollective::kGather:
      return "gather";
    case TraceCollective::kScatter:
      return "scatter";
    case TraceCollective::kBroadcast:
      return "broadcast";
    case TraceCollective::kAllToAll:
      return "all-to-all";
    case TraceCollective::kReduceScatter:
      return "reduce-scatter";
    case TraceCollective::kReduceScatterBlock:
      return "reduce-scatter-block";
    case TraceCollective::kBarrier:
      return "barrier";
  }
  return "?";
}

std::string title_of(const TraceNode& node) {
  std::string title = "node " + std::to_string(node.id);
  if (node.name.empty()) return title;
  constexpr size_t kLongest = 60;  // names of kernels have hundreds of characters
  if (node.name.size() <= kLongest) return title + " (" + node.name + ")";
  return title + " (" + node.name.substr(0, kLongest) + "...)";
}

Result<TraceGraph> TraceGraph::make(std::vector<TraceNodeParents> nodes) {
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const auto& a, const auto& b) { return a.node.id < b.node.id; });
  TraceGraph graph;
  graph.nodes_.reserve(nodes.size());
  for (TraceNodeParents& node : nodes) {
    if (!graph.nodes_.empty() && graph.nodes_.back().id == node.node.id) {
      return fail(title_of(node.node) + ": another node has the same id");
    }
    graph.nodes_.push_back(std::move(node.node));
  }
  const auto link = [&graph](uint32_t node, std::vector<uint64_t>& ids, bool control) {
    TraceEdges& edges = control ? graph.control_ : graph.data_;
    edges.first.push_back(static_cast<uint32_t>(edges.parents.size()));
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (const uint64_t id : ids) {
      const uint32_t parent = place_of(graph.nodes_, id);
      if (parent == kNone) {
        graph.dangling_.push_back({node, id, control});
      } else {
        edges.parents.push_back(parent);
      }
    }
  };
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    link(i, nodes[i].data, false);
    link(i, nodes[i].control, true);
  }
  graph.data_.first.push_back(static_cast<uint32_t>(graph.data_.parents.size()));
  graph.control_.first.push_back(static_cast<uint32_t>(graph.control_.parents.size()));
  return graph;
}

std::vector<TraceNodeParents> TraceGraph::parts() const {
  std::vector<TraceNodeParents> parts(nodes_.size());
  const auto ids = [this](const TraceEdges& edges, uint32_t node) {
    std::vector<uint64_t> out;
    for (uint32_t e = edges.first[node]; e < edges.first[node + 1]; ++e) {
      out.push_back(nodes_[edges.parents[e]].id);
    }
    return out;
  };
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    parts[node] = {nodes_[node], ids(data_, node), ids(control_, node)};
  }
  for (const DanglingParent& missing : dangling_) {
    TraceNodeParents& part = parts[missing.node];
    std::vector<uint64_t>& all = missing.control ? part.control : part.data;
    all.insert(std::lower_bound(all.begin(), all.end(), missing.parent_id), missing.parent_id);
  }
  return parts;
}

namespace {

/// Children and numbers of parents. `before`: of each node one more parent, or kNone; or empty.
TraceOrder make_order(const TraceGraph& graph, TraceRules rules,
                      const std::vector<uint32_t>& before) {
  const auto count = static_cast<uint32_t>(graph.nodes().size());
  TraceOrder order;
  order.parents.resize(count);
  order.first.resize(count + 1);
  // A parent by data and by control counts once.
  std::vector<uint32_t> parents;
  const auto parents_of = [&](uint32_t node) {
    const auto append = [&](const TraceEdges& edges) {
      parents.insert(parents.end(), edges.parents.begin() + edges.first[node],
                     edges.parents.begin() + edges.first[node + 1]);
    };
    parents.clear();
    append(graph.data());
    const auto data = static_cast<ptrdiff_t>(parents.size());
    if (rules == TraceRules::kFeeder3 || rules == TraceRules::kStreams) append(graph.control());
    // PyTorch's converter writes nodes that wait for themselves.
    if (rules == TraceRules::kStreams) {
      parents.erase(std::remove(parents.begin() + data, parents.end(), node), parents.end());
    }
    if (!before.empty() && before[node] != kNone) parents.push_back(before[node]);
    std::sort(parents.begin(), parents.end());
    parents.erase(std::unique(parents.begin(), parents.end()), parents.end());
  };
  for (uint32_t node = 0; node < count; ++node) {
    parents_of(node);
    order.parents[node] = static_cast<uint32_t>(parents.size());
    for (const uint32_t parent : parents) ++order.first[parent + 1];
  }
  for (uint32_t node = 0; node < count; ++node) order.first[node + 1] += order.first[node];
  order.children.resize(order.first[count]);
  std::vector<uint32_t> next(order.first.begin(), order.first.end() - 1);
  for (uint32_t node = 0; node < count; ++node) {
    parents_of(node);
    for (const uint32_t parent : parents) order.children[next[parent]++] = node;
  }
  return order;
}

/// All nodes, each behind its parents, and of those that could come next the one with the least id. An
/// error names a cycle.
Result<std::vector<uint32_t>> sequence(const TraceGraph& graph, const TraceOrder& order) {
  const auto count = static_cast<uint32_t>(graph.nodes().size());
  std::vector<uint32_t> left = order.parents, all;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free;
  for (uint32_t node = 0; node < count; ++node) {
    if (left[node] == 0) free.push(node);
  }
  while (!free.empty()) {
    const uint32_t node = free.top();
    free.pop();
    all.push_back(node);
    for (uint32_t e = order.first[node]; e < order.first[node + 1]; ++e) {
      if (--left[order.children[e]] == 0) free.push(order.children[e]);
    }
  }
  if (all.size() < count) return fail(cycle_text(graph, order, left));
  return all;
}

/// What carries a node out after the one before it, in streams.
std::string stream_of(const TraceNode& node) {
  // Communication on the CPU is a call, not the operation.
  if (node.on_cpu) return "cpu";
  switch (node.kind) {
    case TraceNodeKind::kCollective: {
      std::string name = "group " + (node.group.empty() ? "0" : node.group);
      for (const bool takes_part : node.dimensions) name += takes_part ? " 1" : " 0";
      return name;
    }
    case TraceNodeKind::kSend:
      return "to " + std::to_string(node.destination.value_or(0));
    case TraceNodeKind::kReceive:
      return "from " + std::to_string(node.source.value_or(0));
    case TraceNodeKind::kMemoryLoad:
    case TraceNodeKind::kMemoryStore:
      return "memory";
    case TraceNodeKind::kMetadata:
    case TraceNodeKind::kCompute:
      break;
  }
  return "gpu";
}

/// Of each node the one before it in its stream, or kNone.
std::vector<uint32_t> before_in_stream(const TraceGraph& graph,
                                       const std::vector<uint32_t>& sequence) {
  std::vector<uint32_t> before(graph.nodes().size(), kNone);
  std::unordered_map<std::string, uint32_t> last;
  for (const uint32_t node : sequence) {
    if (graph.nodes()[node].kind == TraceNodeKind::kMetadata) continue;
    const auto [it, fresh] = last.try_emplace(stream_of(graph.nodes()[node]), node);
    if (fresh) continue;
    before[node] = it->second;
    it->second = node;
  }
  return before;
}

}  // namespace

Result<TraceOrder> order_trace(const TraceGraph& graph, TraceRules rules) {
  for (const DanglingParent& dangling : graph.dangling()) {
    if (dangling.control && rules != TraceRules::kFeeder3) continue;
    return fail(title_of(graph.nodes()[dangling.node]) + " waits for node " +
                std::to_string(dangling.parent_id) + ", which is not there" +
                (dangling.control ? " (a control dependency)" : ""));
  }
  TraceOrder order = make_order(graph, rules, {});
  const std::vector<uint32_t> all = TRY(sequence(graph, order));
  if (in_streams(rules)) {
    order = make_order(graph, rules, before_in_stream(graph, all));
    order.sequence = all;
  }
  return order;
}

}  // namespace understudy
