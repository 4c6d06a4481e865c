#include "ctrl/topology/topology_boxes.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace understudy {
namespace {

bool is_router(const Vertex& vertex) { return vertex.name.ends_with("/router"); }

bool has_routers(const Graph& graph) {
  return std::any_of(graph.vertices().begin(), graph.vertices().end(), is_router);
}

bool is_small(const Graph& graph) {
  std::set<uint32_t> hosts;
  for (const Vertex& vertex : graph.vertices()) {
    if (vertex.kind == VertexKind::kNic) hosts.insert(vertex.node);
  }
  return hosts.size() <= kMostHosts && graph.vertices().size() <= kMostDrawn;
}

bool is_network_switch(const Vertex& vertex) {
  return vertex.kind == VertexKind::kSwitch && vertex.tier != 0;
}

Boxes whole(const Graph& graph, bool routers) {
  Boxes out;
  out.routers = routers;
  for (VertexId v = 0; v < graph.vertices().size(); ++v) {
    const bool hidden = routers && graph.vertices()[v].kind == VertexKind::kNic;
    out.shown.push_back(hidden ? kNoVertex : v);
  }
  return out;
}

/// NICs of the same switches are the first of them.
Boxes by_nics(const Graph& graph, bool routers) {
  Boxes out = whole(graph, routers);
  std::map<std::vector<VertexId>, VertexId> first;
  for (VertexId v = 0; v < graph.vertices().size(); ++v) {
    const Vertex& vertex = graph.vertices()[v];
    if (out.shown[v] == kNoVertex || is_network_switch(vertex)) continue;
    out.shown[v] = kNoVertex;
    if (vertex.kind != VertexKind::kNic) continue;
    std::vector<VertexId> ends;
    for (const LinkId link : graph.out(v)) {
      const VertexId to = graph.link(link).to;
      if (graph.vertices()[to].tier != 0) ends.push_back(to);
    }
    out.shown[v] = first.try_emplace(ends, v).first->second;
    Box& box = out.boxes[out.shown[v]];
    box.last = v;
    ++box.nics;
  }
  std::erase_if(out.boxes, [](const auto& one) { return one.second.nics == 1; });
  return out;
}

/// Puts together what hangs together below the highest tier.
class Pods {
 public:
  explicit Pods(const Graph& graph) : graph_(graph), pod_of_(graph.vertices().size(), kNone) {
    for (const Vertex& vertex : graph.vertices()) top_ = std::max(top_, vertex.tier);
    for (VertexId v = 0; v < graph.vertices().size(); ++v) {
      if (!is_top(v) && pod_of_[v] == kNone) gather(v);
    }
  }

  /// `alike`: pods with as many NICs and switches below the same boxes are one.
  Boxes boxes(bool alike) {
    Boxes out;
    out.shown.assign(graph_.vertices().size(), kNoVertex);
    std::map<std::set<size_t>, VertexId> tops;
    for (VertexId v = 0; v < graph_.vertices().size(); ++v) {
      if (!is_top(v)) continue;
      std::set<size_t> below;
      for (const LinkId link : graph_.out(v)) below.insert(pod_of_[graph_.link(link).to]);
      out.shown[v] = tops.try_emplace(below, v).first->second;
      Box& box = out.boxes[out.shown[v]];
      box.last = v;
      ++box.switches;
    }
    using Likeness = std::tuple<std::set<VertexId>, uint64_t, uint64_t, size_t>;
    std::map<Likeness, VertexId> known;
    for (size_t p = 0; p < pods_.size(); ++p) {
      const Pod& pod = pods_[p];
      std::set<VertexId> above;
      for (const VertexId top : pod.above) above.insert(alike ? out.shown[top] : top);
      const bool bare = pod.box.switches == 0;  // NICs at switches of the highest tier
      const Likeness likeness{above, bare ? 0 : pod.box.nics, pod.box.switches,
                              alike || bare ? 0 : p};
      const VertexId name = known.try_emplace(likeness, pod.first).first->second;
      Box& box = out.boxes[name];
      box.last = pod.box.last;
      box.nics += pod.box.nics;
      box.switches += pod.box.switches;
      if (!bare) ++box.pods;
      for (const VertexId v : pod.vertices) out.shown[v] = name;
    }
    std::erase_if(out.boxes,
                  [](const auto& one) { return one.second.nics + one.second.switches <= 1; });
    return out;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Pod {
    std::vector<VertexId> vertices;
    VertexId first = kNoVertex;  ///< the first NIC, or vertex
    std::set<VertexId> above;
    Box box;
  };

  bool is_top(VertexId v) const {
    return is_network_switch(graph_.vertices()[v]) && graph_.vertices()[v].tier == top_;
  }

  void gather(VertexId start) {
    Pod pod;
    pod.vertices.push_back(start);
    pod_of_[start] = pods_.size();
    for (size_t i = 0; i < pod.vertices.size(); ++i) {
      for (const LinkId link : graph_.out(pod.vertices[i])) {
        const VertexId to = graph_.link(link).to;
        if (is_top(to)) {
          pod.above.insert(to);
        } else if (pod_of_[to] == kNone) {
          pod_of_[to] = pods_.size();
          pod.vertices.push_back(to);
        }
      }
    }
    std::sort(pod.vertices.begin(), pod.vertices.end());
    pod.first = start;
    for (const VertexId v : pod.vertices) {
      const Vertex& vertex = graph_.vertices()[v];
      if (is_network_switch(vertex)) {
        ++pod.box.switches;
        if (pod.box.nics == 0) pod.box.last = v;
      }
      if (vertex.kind != VertexKind::kNic) continue;
      if (pod.box.nics++ == 0) pod.first = v;
      pod.box.last = v;
    }
    pods_.push_back(std::move(pod));
  }

  const Graph& graph_;
  uint8_t top_ = 0;
  std::vector<size_t> pod_of_;  ///< by vertex; kNone at the highest tier
  std::vector<Pod> pods_;
};

/// `block` hosts of consecutive numbers are the first of their NICs, with their routers and the
/// switches between them; switches between the same blocks are the first of them.
Boxes by_blocks(const Graph& graph, uint32_t block) {
  Boxes out;
  out.routers = true;
  out.shown.assign(graph.vertices().size(), kNoVertex);
  std::map<uint32_t, VertexId> first;
  for (VertexId v = 0; v < graph.vertices().size(); ++v) {
    const Vertex& vertex = graph.vertices()[v];
    if (vertex.kind != VertexKind::kNic) continue;
    out.shown[v] = first.try_emplace(vertex.node / block, v).first->second;
    Box& box = out.boxes[out.shown[v]];
    box.last = v;
    ++box.nics;
    for (const LinkId link : graph.out(v)) {
      const VertexId to = graph.link(link).to;
      if (is_router(graph.vertices()[to])) out.shown[to] = out.shown[v];
    }
  }
  std::map<std::set<VertexId>, VertexId> between;
  for (VertexId v = 0; v < graph.vertices().size(); ++v) {
    if (!is_network_switch(graph.vertices()[v]) || is_router(graph.vertices()[v])) continue;
    std::set<VertexId> blocks;
    for (const LinkId link : graph.out(v)) blocks.insert(out.shown[graph.link(link).to]);
    const bool inside = blocks.size() == 1;
    out.shown[v] = inside ? *blocks.begin() : between.try_emplace(blocks, v).first->second;
    Box& box = out.boxes[out.shown[v]];
    if (!inside) box.last = v;
    ++box.switches;
  }
  std::erase_if(out.boxes,
                [](const auto& one) { return one.second.nics + one.second.switches <= 1; });
  return out;
}

Boxes legible(const Graph& graph, const std::vector<uint32_t>& blocks) {
  const bool routers = has_routers(graph);
  Boxes out = by_nics(graph, routers);
  if (out.drawn() <= kMostBoxes) return out;
  if (routers) {
    for (const uint32_t block : blocks) {
      out = by_blocks(graph, block);
      if (out.drawn() <= kMostBoxes) break;
    }
    return out;
  }
  Pods pods(graph);
  out = pods.boxes(false);
  return out.drawn() <= kMostBoxes ? out : pods.boxes(true);
}

}  // namespace

size_t Boxes::drawn() const {
  size_t count = 0;
  for (VertexId v = 0; v < shown.size(); ++v) count += shown[v] == v;
  return count;
}

bool is_troubled(const Graph& graph, LinkId link) {
  for (const LinkId one : {link, reverse(link)}) {
    const GraphLink& way = graph.link(one);
    if (way.loss > 0 || !way.down.empty()) return true;
  }
  return false;
}

Boxes boxes_of(const Graph& graph, bool all, const std::vector<uint32_t>& blocks) {
  Boxes out = all || is_small(graph) ? whole(graph, has_routers(graph)) : legible(graph, blocks);
  for (LinkId id = 0; id < graph.links().size(); id += 2) {
    const VertexId a = out.shown[graph.link(id).from], b = out.shown[graph.link(id).to];
    if (a != b || !is_troubled(graph, id)) continue;
    if (const auto box = out.boxes.find(a); box != out.boxes.end()) box->second.troubled = true;
  }
  return out;
}

}  // namespace understudy
