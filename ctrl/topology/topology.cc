#include "ctrl/topology/topology.h"

#include <algorithm>
#include <utility>

#include "ctrl/topology/named_links.h"
#include "ctrl/topology/topology_builder.h"

namespace understudy {
namespace {

void build_single_switch(TopologyBuilder& builder, unsigned line) {
  const VertexId all = builder.add_switch("switch0", 1, line);
  for (const NodeConfig& node : builder.config().nodes) {
    for (unsigned k = 0; k < node.nics.size(); ++k) builder.attach(node.index, k, all);
  }
}

void build_kind(TopologyBuilder& builder, const TopologyConfig& topology) {
  switch (topology.kind) {
    case TopologyKind::kSingleSwitch:
      return build_single_switch(builder, topology.line);
    case TopologyKind::kLeafSpine:
      return build_leaf_spine(builder, topology);
    case TopologyKind::kRail:
      return build_rail(builder, topology);
    case TopologyKind::kFatTree:
      return build_fat_tree(builder, topology);
    case TopologyKind::kTorus:
    case TopologyKind::kMesh:
      return build_torus(builder, topology);
    case TopologyKind::kDimensions:
      return build_dimensions(builder, topology);
    case TopologyKind::kGraph:
      return build_explicit_graph(builder, topology);
  }
}

RouteChoice choice_of(RoutingMode mode) {
  switch (mode) {
    case RoutingMode::kEcmp:
      return RouteChoice::kEcmp;
    case RoutingMode::kSpray:
      return RouteChoice::kSpray;
    case RoutingMode::kStatic:
    case RoutingMode::kDimensionOrder:  // a grid's cables are made dimension by dimension
      break;
  }
  return RouteChoice::kFirst;
}

}  // namespace

void TopologyBuilder::error(unsigned line, std::string_view key, std::string found,
                            std::string allowed) {
  errors_.push_back(
      {config_.path, line, "topology." + std::string(key), std::move(found), std::move(allowed)});
}

void TopologyBuilder::add_vertex(Vertex vertex, unsigned line, std::string_view key) {
  const auto [other, is_new] = topology_.by_name.emplace(vertex.name, graph().vertices().size());
  if (!is_new) {
    const VertexKind kind = graph().vertices()[other->second].kind;
    error(line, key, "\"" + vertex.name + "\"",
          std::string("this name belongs to a ") + (kind == VertexKind::kNic ? "NIC" : "switch"));
  }
  graph().add_vertex(std::move(vertex));
}

void TopologyBuilder::add_nics() {
  for (const NodeConfig& node : config_.nodes) {
    std::vector<VertexId>& nics = topology_.nics.emplace_back();
    for (unsigned k = 0; k < node.nics.size(); ++k) {
      nics.push_back(static_cast<VertexId>(graph().vertices().size()));
      const std::string name = k == 0 ? node.name : node.name + ":" + std::to_string(k);
      add_vertex(
          {VertexKind::kNic, name, node.index, static_cast<uint16_t>(k), 0, node.nics[k].limits},
          node.line, "");
    }
  }
}

std::vector<VertexId> TopologyBuilder::add_gpus(const NodeConfig& node) {
  std::vector<VertexId> gpus;
  for (unsigned g = 0; g < node.gpus; ++g) {
    gpus.push_back(static_cast<VertexId>(graph().vertices().size()));
    add_vertex({VertexKind::kGpu, node.name + "/gpu" + std::to_string(g), node.index,
                static_cast<uint16_t>(g), 0},
               node.line, "");
  }
  topology_.gpus.push_back(gpus);
  return gpus;
}

VertexId TopologyBuilder::add_switch(std::string name, uint8_t tier, unsigned line,
                                     std::string_view key) {
  add_vertex({VertexKind::kSwitch, std::move(name), 0, 0, tier}, line, key);
  return static_cast<VertexId>(graph().vertices().size() - 1);
}

VertexId TopologyBuilder::add_switches(const std::string& name, uint32_t count, uint8_t tier) {
  const auto first = static_cast<VertexId>(graph().vertices().size());
  const unsigned line = config_.topology ? config_.topology->line : 0;
  for (uint32_t i = 0; i < count; ++i) add_switch(name + std::to_string(i), tier, line);
  return first;
}

void TopologyBuilder::attach(NodeId node, unsigned nic, VertexId to) {
  const NicConfig& own = config_.nodes[node].nics[nic];
  graph().connect(topology_.nics[node][nic], to, own.link_rate, own.link_latency);
}

void TopologyBuilder::connect(VertexId a, VertexId b, const LinkConfig& link, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) graph().connect(a, b, link.rate, link.latency);
}

std::vector<VertexId> TopologyBuilder::matching(const std::string& pattern) const {
  if (pattern.find('*') == std::string::npos) {
    const auto found = topology_.by_name.find(pattern);
    return found == topology_.by_name.end() ? std::vector<VertexId>{}
                                            : std::vector<VertexId>{found->second};
  }
  std::vector<VertexId> all;
  for (VertexId v = 0; v < topology_.graph.vertices().size(); ++v) {
    if (matches(pattern, topology_.graph.vertices()[v].name)) all.push_back(v);
  }
  return all;
}

std::vector<LinkId> Topology::cables(NodeId node) const {
  std::vector<LinkId> cables;
  for (const VertexId nic : nics[node]) {
    for (const LinkId link : graph.uplinks(nic)) cables.push_back(link);
  }
  return cables;
}

void TopologyBuilder::limit_links() {
  for (const NodeConfig& node : config_.nodes) {
    for (unsigned k = 0; k < node.nics.size(); ++k) {
      const PacketLimits& own = node.nics[k].limits.packets;
      if (!own.any()) continue;
      for (const LinkId link : graph().uplinks(topology_.nics[node.index][k])) {
        for (const LinkId way : {link, reverse(link)}) {
          PacketLimits& limits = graph().link(way).limits;
          limits.least = std::max(limits.least, own.least);
          if (limits.pcie.is_unlimited() || own.pcie < limits.pcie) limits.pcie = own.pcie;
        }
      }
    }
  }
}

tl::expected<Topology, std::vector<ConfigError>> build_topology(const Config& config) {
  TopologyBuilder builder(config);
  builder.add_nics();
  if (!config.topology) {
    build_single_switch(builder, 0);
    builder.limit_links();
    return std::move(builder.topology());
  }
  const TopologyConfig& topology = *config.topology;
  build_kind(builder, topology);
  builder.limit_links();
  if (config.intra_node) build_intra_node(builder, *config.intra_node);
  if (builder.errors().empty()) {  // names can be relied on
    apply_overrides(builder, topology);
    resolve_routes(builder, topology);
    check_reachable(builder, topology.line);
  }
  builder.topology().choice = choice_of(topology.routing);
  if (builder.errors().empty()) return std::move(builder.topology());
  std::stable_sort(builder.errors().begin(), builder.errors().end(),
                   [](const ConfigError& a, const ConfigError& b) { return a.line < b.line; });
  return tl::unexpected(std::move(builder.errors()));
}

}  // namespace understudy
