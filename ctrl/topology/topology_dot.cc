#include "ctrl/topology/topology_dot.h"

#include <algorithm>
#include <map>
#include <vector>

#include "ctrl/report/draw.h"
#include "ctrl/report/text.h"
#include "ctrl/topology/topology_boxes.h"
#include "ctrl/topology/topology_summary.h"

namespace understudy {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// Below the title of a picture that does not show each host.
constexpr const char* kBoxed = "\nboxes stand for several hosts or switches; --all draws each";

/// Cables between two vertices that are drawn, or boxes.
struct Bundle {
  uint64_t cables = 0;
  Rate rate;
  bool troubled = false;
};

class Drawing {
 public:
  Drawing(const Graph& graph, bool all, const std::vector<uint32_t>& blocks)
      : graph_(graph), boxes_(boxes_of(graph, all, blocks)) {
    for (LinkId id = 0; id < graph.links().size(); id += 2) add(id);
  }

  std::string text(const std::string& title) {
    std::map<uint8_t, std::vector<std::string>> tiers;
    std::string vertices;
    for (VertexId v = 0; v < graph_.vertices().size(); ++v) {
      if (boxes_.shown[v] == v) vertices += vertex(v, tiers);
    }
    std::string out = "graph topology {\n";
    if (boxes_.routers) {  // a grid has no tiers; the quick layout where there are many
      const bool many = graph_.vertices().size() > kMostDrawn;
      out += std::string("  layout=") + (many ? "sfdp" : "neato") + "\n  overlap=false\n";
    } else {  // tiers one above the other, the further apart the wider they are
      size_t widest = 0;
      for (const auto& [tier, names] : tiers) widest = std::max(widest, names.size());
      out +=
          "  rankdir=BT\n  ranksep=" + decimal_text(1 + static_cast<double>(widest) / 10, 1) + "\n";
    }
    out += "  size=\"60,60\"\n  splines=line\n";
    out += "  label=" + quoted(title + (boxes_.boxes.empty() ? "" : kBoxed)) +
           "\n  fontname=\"sans-serif\"\n";
    out += "  node [fontname=\"sans-serif\", fontsize=11, style=filled, fillcolor=white]\n";
    out += "  edge [fontname=\"sans-serif\", fontsize=9]\n";
    out += vertices;
    for (const auto& [tier, names] : tiers) {
      if (boxes_.routers || names.size() < 2) continue;
      // In the order of the graph: a chain that nobody sees.
      out += "  { rank=same; ";
      for (size_t i = 0; i < names.size(); ++i) out += (i == 0 ? "" : " -- ") + names[i];
      out += " [style=invis] }\n";
    }
    for (const auto& [ends, bundle] : bundles_) out += edge(ends, bundle);
    return out + "}\n";
  }

 private:
  void add(LinkId id) {
    const GraphLink& link = graph_.link(id);
    const VertexId a = boxes_.shown[link.from], b = boxes_.shown[link.to];
    if (a == kNoVertex || b == kNoVertex || a == b) return;
    Bundle& bundle = bundles_[std::minmax(a, b)];
    ++bundle.cables;
    bundle.rate = std::max(bundle.rate, link.rate);
    bundle.troubled = bundle.troubled || is_troubled(graph_, id);
  }

  /// From its first to its last, and how many of what it stands for.
  std::string label_of(VertexId v, const Box& box) const {
    std::string text = graph_.vertices()[v].name + " .. " + graph_.vertices()[box.last].name + "\n";
    if (box.pods > 1) text += count_text(box.pods, "pod") + ", ";
    if (box.nics > 0) text += count_text(box.nics, "NIC");
    if (box.nics > 0 && box.switches > 0) text += ", ";
    if (box.switches > 0) {
      text += std::to_string(box.switches) + (box.switches == 1 ? " switch" : " switches");
    }
    return text;
  }

  std::string vertex(VertexId v, std::map<uint8_t, std::vector<std::string>>& tiers) const {
    const Vertex& vertex = graph_.vertices()[v];
    const auto box = boxes_.boxes.find(v);
    const bool one = box == boxes_.boxes.end();
    std::string text = "  " + quoted(vertex.name) +
                       " [label=" + quoted(one ? vertex.name : label_of(v, box->second));
    if (!one && box->second.troubled) text += ", color=red";
    if (vertex.kind == VertexKind::kGpu) text += ", shape=ellipse, fillcolor=\"#e5f5e0\"";
    if (vertex.kind == VertexKind::kNic) text += ", shape=box, fillcolor=\"#deebf7\"";
    if (vertex.kind == VertexKind::kSwitch) text += ", shape=box, style=\"filled,rounded\"";
    const int rank = vertex.kind == VertexKind::kGpu   ? 0
                     : vertex.kind == VertexKind::kNic ? 2
                     : vertex.tier == 0                ? 1
                                                       : vertex.tier + 2;
    tiers[static_cast<uint8_t>(rank)].push_back(quoted(vertex.name));
    return text + "]\n";
  }

  std::string edge(const std::pair<VertexId, VertexId>& ends, const Bundle& bundle) const {
    const auto name = [&](VertexId v) { return quoted(graph_.vertices()[v].name); };
    const std::string count = std::to_string(bundle.cables) + "x";
    std::string text = "  " + name(ends.first) + " -- " + name(ends.second) +
                       " [tooltip=" + quoted(count + " " + rate_text(bundle.rate.bps()));
    // Labels push everything apart; there is room for few.
    if (bundle.cables > 1 && bundles_.size() <= kMostDrawn / 2) text += ", label=" + quoted(count);
    if (bundle.cables > 1)
      text += ", penwidth=" + std::to_string(std::min<uint64_t>(bundle.cables, 4));
    if (bundle.troubled) text += ", color=red, style=dashed";
    return text + "]\n";
  }

  const Graph& graph_;
  Boxes boxes_;
  std::map<std::pair<VertexId, VertexId>, Bundle> bundles_;
};

}  // namespace

std::string dot_program(const Graph& graph, const std::string& title, bool all,
                        const std::vector<uint32_t>& blocks) {
  return Drawing(graph, all, blocks).text(title);
}

std::vector<uint32_t> blocks_of(const Config& config) {
  std::vector<uint32_t> out;
  if (!config.topology) return out;
  std::vector<uint32_t> sizes = config.topology->dims;
  for (const DimensionConfig& dimension : config.topology->dimensions) {
    sizes.push_back(dimension.size);
  }
  uint32_t hosts = 1;
  for (size_t d = 0; d + 1 < sizes.size(); ++d) {
    hosts *= sizes[d];
    if (hosts > 1) out.push_back(hosts);
  }
  return out;
}

bool can_draw(const std::string& file) {
  return file.ends_with(".svg") || file.ends_with(".png") || file.ends_with(".dot");
}

Result<void> draw_topology(const Graph& graph, const std::string& title, const std::string& file,
                           bool all, const std::vector<uint32_t>& blocks) {
  const std::string text = dot_program(graph, title, all, blocks);
  if (file.ends_with(".dot")) return write_text(file, text);
  const std::string format = "-T" + file.substr(file.size() - 3);
  return draw_with({"dot", "topologies", "graphviz"}, {format, "-o", file}, text);
}

}  // namespace understudy
