// Topologies in tiers: leaf-spine, rail-optimised, fat tree.
#include <algorithm>

#include "ctrl/topology/topology_builder.h"

namespace understudy {
namespace {

/// `leaves` leaves from `first` on, each joined to every spine.
void add_spines(TopologyBuilder& builder, const TopologyConfig& topology, VertexId first,
                uint32_t leaves) {
  const VertexId spines = builder.add_switches("spine", topology.spines, 2);
  for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (uint32_t spine = 0; spine < topology.spines; ++spine) {
      builder.connect(first + leaf, spines + spine, topology.uplink, topology.links_per_spine);
    }
  }
}

}  // namespace

void build_leaf_spine(TopologyBuilder& builder, const TopologyConfig& topology) {
  const VertexId leaves = builder.add_switches("leaf", topology.leaves, 1);
  for (const NodeConfig& node : builder.config().nodes) {
    for (unsigned k = 0; k < node.nics.size(); ++k) {
      builder.attach(node.index, k, leaves + node.index / topology.hosts_per_leaf);
    }
  }
  add_spines(builder, topology, leaves, topology.leaves);
}

void build_rail(TopologyBuilder& builder, const TopologyConfig& topology) {
  size_t most = 1;
  for (const NodeConfig& node : builder.config().nodes) most = std::max(most, node.nics.size());
  const auto rails = static_cast<uint32_t>(most);
  const VertexId leaves = builder.add_switches("leaf", topology.leaves * rails, 1);
  for (const NodeConfig& node : builder.config().nodes) {
    const uint32_t group = node.index / topology.hosts_per_leaf;
    for (unsigned k = 0; k < node.nics.size(); ++k) {
      builder.attach(node.index, k, leaves + group * rails + k);
    }
  }
  add_spines(builder, topology, leaves, topology.leaves * rails);
}

void build_fat_tree(TopologyBuilder& builder, const TopologyConfig& topology) {
  const uint32_t half = topology.k / 2;
  const uint32_t edges = topology.k * half;
  const VertexId edge = builder.add_switches("edge", edges, 1);
  const VertexId agg = builder.add_switches("agg", edges, 2);
  const VertexId core = builder.add_switches("core", half * half, 3);
  uint32_t host = 0;
  for (const NodeConfig& node : builder.config().nodes) {
    for (unsigned k = 0; k < node.nics.size(); ++k) {
      builder.attach(node.index, k, edge + host++ / half);
    }
  }
  for (uint32_t e = 0; e < edges; ++e) {
    const uint32_t pod = e / half;
    for (uint32_t a = 0; a < half; ++a) {
      builder.connect(edge + e, agg + pod * half + a, topology.uplink);
    }
  }
  // The a-th aggregation switch of every pod leads to the cores a * k/2 ... (a + 1) * k/2 - 1.
  for (uint32_t a = 0; a < edges; ++a) {
    for (uint32_t c = 0; c < half; ++c) {
      builder.connect(agg + a, core + a % half * half + c, topology.core_uplink);
    }
  }
}

}  // namespace understudy
