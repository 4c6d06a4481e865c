#include <algorithm>
#include <map>
#include <utility>

#include "collective_model/traces/trace_matching.h"
#include "ctrl/traces/trace_output.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using Kind = TraceNodeKind;
/// Of a node: its rank, and its place in the graph.
using DrawnNode = std::pair<uint32_t, uint32_t>;

std::string drawn_name(const DrawnNode& place) {
  return "r" + std::to_string(place.first) + "n" + std::to_string(place.second);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    // Control characters are no part of a picture.
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

std::string amount(const TraceNode& node) {
  if (node.kind == Kind::kCompute) {
    return format_text("%.3f us", static_cast<double>(node.duration_ns()) / 1e3);
  }
  std::string text = node.collective && node.kind == Kind::kCollective ? name_of(*node.collective)
                                                                       : name_of(node.kind);
  if (node.bytes) text += ", " + std::to_string(*node.bytes) + " bytes";
  if (node.kind == Kind::kSend && node.destination) {
    text += " to " + std::to_string(*node.destination);
  }
  if (node.kind == Kind::kReceive && node.source) text += " from " + std::to_string(*node.source);
  return text;
}

const char* shape_of(const TraceNode& node) {
  switch (node.kind) {
    case Kind::kCompute:
      return "box";
    case Kind::kSend:
    case Kind::kReceive:
      return "cds";
    case Kind::kCollective:
      return "ellipse";
    default:
      return "note";
  }
}

/// Of one rank, to `text`.
void add_edges(std::string& text, uint32_t rank, const TraceEdges& edges, size_t nodes,
               const char* how) {
  for (uint32_t node = 0; node < nodes; ++node) {
    for (uint32_t e = edges.first[node]; e < edges.first[node + 1]; ++e) {
      text += "  " + drawn_name({rank, edges.parents[e]}) + " -> " + drawn_name({rank, node}) +
              how + ";\n";
    }
  }
}

/// Sends and receives that meet; a message that only one end has is not drawn.
std::string message_lines(const TraceJob& job) {
  std::map<TraceMessageKey, std::pair<std::vector<DrawnNode>, std::vector<DrawnNode>>> ends;
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const std::vector<TraceNode>& nodes = job.ranks[rank]->nodes();
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      const TraceNode& node = nodes[i];
      const bool sends = node.kind == Kind::kSend && node.destination && node.bytes;
      const bool receives = node.kind == Kind::kReceive && node.source && node.bytes;
      if (!sends && !receives) continue;
      auto& both = ends[message_key(rank, node)];
      (sends ? both.first : both.second).emplace_back(rank, i);
    }
  }
  std::string text;
  for (const auto& [key, both] : ends) {
    const auto& [sent, received] = both;
    for (size_t i = 0; i < std::min(sent.size(), received.size()); ++i) {
      text += "  " + drawn_name(sent[i]) + " -> " + drawn_name(received[i]) + " [style=dotted];\n";
    }
  }
  return text;
}

}  // namespace

Result<std::string> traces_dot(const TraceJob& job) {
  size_t all = 0;
  for (const auto& graph : job.ranks) all += graph->nodes().size();
  if (all > kMostDrawnNodes) {
    return fail("the traces have " + std::to_string(all) + " nodes; at most " +
                std::to_string(kMostDrawnNodes) + " are drawn");
  }
  std::string text = "digraph traces {\n  rankdir=LR;\n  node [fontsize=10];\n";
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const TraceGraph& graph = *job.ranks[rank];
    text += format_text("  subgraph cluster_%u {\n    label=\"rank %u\";\n", rank, rank);
    for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
      TraceNode there = graph.nodes()[i];
      there.id += rank * job.id_step;
      text += "    " + drawn_name({rank, i}) + " [shape=" + shape_of(there) +
              ", label=" + quoted(title_of(there) + ": " + amount(there)) + "];\n";
    }
    text += "  }\n";
    add_edges(text, rank, graph.data(), graph.nodes().size(), "");
    add_edges(text, rank, graph.control(), graph.nodes().size(), " [style=dashed]");
  }
  return text + message_lines(job) + "}\n";
}

}  // namespace understudy
