// The graph while it is being built, and the families that build it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ctrl/topology/topology.h"

namespace understudy {

class TopologyBuilder {
 public:
  explicit TopologyBuilder(const Config& config) : config_(config) {}

  const Config& config() const { return config_; }
  Topology& topology() { return topology_; }
  Graph& graph() { return topology_.graph; }
  std::vector<ConfigError>& errors() { return errors_; }
  /// `key` is that inside [topology].
  void error(unsigned line, std::string_view key, std::string found, std::string allowed);

  /// A vertex for every NIC.
  void add_nics();
  /// A vertex for every GPU of a node.
  std::vector<VertexId> add_gpus(const NodeConfig& node);
  /// A switch or router. A name that is taken is an error of `line`.
  VertexId add_switch(std::string name, uint8_t tier, unsigned line, std::string_view key = "kind");
  /// `count` switches "<name>0", "<name>1", ...; gives the first.
  VertexId add_switches(const std::string& name, uint32_t count, uint8_t tier);
  /// The NIC's own link, to its first switch.
  void attach(NodeId node, unsigned nic, VertexId to);
  void connect(VertexId a, VertexId b, const LinkConfig& link, uint32_t count = 1);
  /// Limits of NICs' packets, on all their cables to the network.
  void limit_links();
  /// The vertices whose names fit, in their order; `pattern` may hold '*'.
  std::vector<VertexId> matching(const std::string& pattern) const;

 private:
  void add_vertex(Vertex vertex, unsigned line, std::string_view key);

  const Config& config_;
  Topology topology_;
  std::vector<ConfigError> errors_;
};

// The families; nodes and NICs are there.
void build_leaf_spine(TopologyBuilder& builder, const TopologyConfig& topology);
void build_rail(TopologyBuilder& builder, const TopologyConfig& topology);
void build_fat_tree(TopologyBuilder& builder, const TopologyConfig& topology);
void build_torus(TopologyBuilder& builder, const TopologyConfig& topology);
void build_dimensions(TopologyBuilder& builder, const TopologyConfig& topology);
void build_explicit_graph(TopologyBuilder& builder, const TopologyConfig& topology);

// On the whole graph.
void build_intra_node(TopologyBuilder& builder, const IntraNodeConfig& intra);
void apply_overrides(TopologyBuilder& builder, const TopologyConfig& topology);
void resolve_routes(TopologyBuilder& builder, const TopologyConfig& topology);
/// NIC k of every node reaches NIC k of every other.
void check_reachable(TopologyBuilder& builder, unsigned line);

}  // namespace understudy
