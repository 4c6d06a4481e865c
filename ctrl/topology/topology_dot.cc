#include "ctrl/topology/topology_dot.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "ctrl/report/draw.h"
#include "ctrl/report/text.h"
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

/// Cables between two vertices that are drawn, or boxes.
struct Bundle {
  uint64_t cables = 0;
  Rate rate;
  bool troubled = false;
};

class Drawing {
 public:
  explicit Drawing(const Graph& graph)
      : graph_(graph),
        collapsed_(graph.vertices().size() > kMostDrawn),
        routers_(std::any_of(graph.vertices().begin(), graph.vertices().end(),
                             [](const Vertex& v) { return v.name.ends_with("/router"); })) {
    for (VertexId v = 0; v < graph.vertices().size(); ++v) shown_.push_back(place_of(v));
    for (LinkId id = 0; id < graph.links().size(); id += 2) add(id);
  }

  std::string text(const std::string& title) {
    std::map<uint8_t, std::vector<std::string>> tiers;
    std::string vertices;
    for (VertexId v = 0; v < graph_.vertices().size(); ++v) {
      if (shown_[v] == v) vertices += vertex(v, tiers);
    }
    std::string out = "graph topology {\n";
    if (routers_) {  // a grid has no tiers; the quick layout where there are many
      out += std::string("  layout=") + (collapsed_ ? "sfdp" : "neato") + "\n  overlap=false\n";
    } else {  // tiers one above the other, the further apart the wider they are
      size_t widest = 0;
      for (const auto& [tier, names] : tiers) widest = std::max(widest, names.size());
      out +=
          "  rankdir=BT\n  ranksep=" + decimal_text(1 + static_cast<double>(widest) / 10, 1) + "\n";
    }
    out += "  size=\"60,60\"\n  splines=line\n";
    out += "  label=" + quoted(title) + "\n  fontname=\"sans-serif\"\n";
    out += "  node [fontname=\"sans-serif\", fontsize=11, style=filled, fillcolor=white]\n";
    out += "  edge [fontname=\"sans-serif\", fontsize=9]\n";
    out += vertices;
    for (const auto& [tier, names] : tiers) {
      if (routers_) break;
      // In the order of the graph: a chain that nobody sees.
      out += "  { rank=same; ";
      for (size_t i = 0; i < names.size(); ++i) out += (i == 0 ? "" : " -- ") + names[i];
      out += " [style=invis] }\n";
    }
    for (const auto& [ends, bundle] : bundles_) out += edge(ends, bundle);
    return out + "}\n";
  }

 private:
  /// The vertex that stands for this one in the picture, or kNoVertex. NICs of one switch are drawn
  /// as the first of them.
  VertexId place_of(VertexId v) {
    const Vertex& vertex = graph_.vertices()[v];
    if (routers_ && vertex.kind == VertexKind::kNic) return kNoVertex;  // its router is the node
    if (!collapsed_ || (vertex.kind == VertexKind::kSwitch && vertex.tier != 0)) return v;
    if (vertex.kind != VertexKind::kNic) return kNoVertex;
    std::vector<VertexId> ends;
    for (LinkId out : graph_.out(v)) {
      const VertexId to = graph_.link(out).to;
      if (graph_.vertices()[to].tier != 0) ends.push_back(to);
    }
    const VertexId first = first_nic_.try_emplace(ends, v).first->second;
    members_[first].push_back(v);
    return first;
  }

  void add(LinkId id) {
    const GraphLink& link = graph_.link(id);
    const VertexId a = shown_[link.from], b = shown_[link.to];
    if (a == kNoVertex || b == kNoVertex) return;
    Bundle& bundle = bundles_[std::minmax(a, b)];
    ++bundle.cables;
    bundle.rate = std::max(bundle.rate, link.rate);
    for (LinkId one : {id, reverse(id)}) {
      const GraphLink& way = graph_.link(one);
      bundle.troubled = bundle.troubled || way.loss > 0 || !way.down.empty();
    }
  }

  std::string vertex(VertexId v, std::map<uint8_t, std::vector<std::string>>& tiers) const {
    const Vertex& vertex = graph_.vertices()[v];
    std::string label = vertex.name;
    if (const auto box = members_.find(v); box != members_.end() && box->second.size() > 1) {
      label += " .. " + graph_.vertices()[box->second.back()].name + "\n" +
               count_text(box->second.size(), "NIC");
    }
    std::string text = "  " + quoted(vertex.name) + " [label=" + quoted(label);
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
  bool collapsed_;
  bool routers_;  ///< nodes forward: torus, mesh, stack
  std::vector<VertexId> shown_;
  std::map<std::vector<VertexId>, VertexId> first_nic_;
  std::map<VertexId, std::vector<VertexId>> members_;
  std::map<std::pair<VertexId, VertexId>, Bundle> bundles_;
};

Result<void> write_text(const std::string& file, const std::string& text) {
  std::FILE* out = std::fopen(file.c_str(), "wb");
  const bool written =
      out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const bool closed = out != nullptr && std::fclose(out) == 0;
  if (!written || !closed) return fail(file + ": " + std::strerror(errno));
  return {};
}

}  // namespace

std::string dot_program(const Graph& graph, const std::string& title) {
  return Drawing(graph).text(title);
}

bool can_draw(const std::string& file) {
  return file.ends_with(".svg") || file.ends_with(".png") || file.ends_with(".dot");
}

Result<void> draw_topology(const Graph& graph, const std::string& title, const std::string& file) {
  const std::string text = dot_program(graph, title);
  if (file.ends_with(".dot")) return write_text(file, text);
  const std::string format = "-T" + file.substr(file.size() - 3);
  return draw_with({"dot", "topologies", "graphviz"}, {format, "-o", file}, text);
}

}  // namespace understudy
