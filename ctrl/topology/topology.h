// From a configuration's [topology] to the network's graph and its routes.
//
// Names of vertices: NIC 0 of node "w3" is "w3", NIC 1 "w3:1"; GPUs "w3/gpu0", the NVSwitch
// "w3/nvswitch"; switches "leaf0", "spine1", "edge2", "agg1", "core0", "switch0"; routers
// "w3/router"; the switches of a stack's dimension 1 "dim1.0", "dim1.1", ...
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/config/read/load.h"
#include "dataplane/fabric/graph.h"
#include "dataplane/fabric/next_hops.h"
#include "dataplane/fabric/routes.h"

namespace understudy {

/// The network of a configuration. Without a [topology] it is one ideal switch, "switch0".
struct Topology {
  Graph graph;
  std::vector<std::vector<VertexId>> nics;  ///< by node and NIC
  std::vector<std::vector<VertexId>> gpus;  ///< by node and GPU; empty without [intra_node]
  std::unordered_map<std::string, VertexId> by_name;
  RouteChoice choice = RouteChoice::kEcmp;
  std::vector<StaticRoute> static_routes;

  /// That join a node's NICs to switches, in the direction to these.
  std::vector<LinkId> cables(NodeId node) const;
  /// The routing over `graph`, which must stay where it is.
  Routes routes(uint64_t seed) const { return Routes(graph, choice, seed, static_routes); }
  /// The same as packets find it, switch by switch; static routes aside.
  NextHops next_hops(uint64_t seed) const { return NextHops(graph, choice, seed); }
};

/// Builds and checks: names that are taken or unknown, ends that are not there, overrides that
/// match nothing, routes that are no paths, nodes that cannot reach one another. Every error has a
/// line.
tl::expected<Topology, std::vector<ConfigError>> build_topology(const Config& config);

}  // namespace understudy
