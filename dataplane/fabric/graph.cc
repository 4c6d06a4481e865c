#include "dataplane/fabric/graph.h"

#include <utility>

namespace understudy {

VertexId Graph::add_vertex(Vertex vertex) {
  vertices_.push_back(std::move(vertex));
  out_.emplace_back();
  return static_cast<VertexId>(vertices_.size() - 1);
}

LinkId Graph::connect(VertexId a, VertexId b, Rate rate, Duration latency) {
  const auto id = static_cast<LinkId>(links_.size());
  links_.push_back({.from = a, .to = b, .rate = rate, .latency = latency});
  links_.push_back({.from = b, .to = a, .rate = rate, .latency = latency});
  out_[a].push_back(id);
  out_[b].push_back(reverse(id));
  return id;
}

std::vector<LinkId> Graph::uplinks(VertexId nic) const {
  std::vector<LinkId> links;
  for (const LinkId link : out(nic)) {
    const Vertex& to = vertices_[links_[link].to];
    if (to.tier != 0 || to.kind == VertexKind::kNic) links.push_back(link);
  }
  return links;
}

std::string Graph::link_name(LinkId id) const {
  return vertices_[links_[id].from].name + " -> " + vertices_[links_[id].to].name;
}

VertexId Graph::find(const std::string& name) const {
  for (VertexId v = 0; v < vertices_.size(); ++v) {
    if (vertices_[v].name == name) return v;
  }
  return kNoVertex;
}

}  // namespace understudy
