// [topology] and [intra_node] as plain values: how the emulated network is wired. Counts are final:
// what a file leaves to be derived (leaves, spines, parallel cables) has been derived. The graph
// itself: ctrl/topology/topology.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctrl/config/events/link_name.h"
#include "dataplane/base/units.h"
#include "dataplane/fabric/graph.h"

namespace understudy {

enum class TopologyKind {
  kSingleSwitch,  ///< every NIC on one ideal switch
  kLeafSpine,     ///< all NICs of a node on its leaf, every leaf on every spine
  kRail,          ///< NIC r of a group's nodes on the group's leaf of rail r, spines above
  kFatTree,       ///< k-ary, three tiers (Al-Fares et al., SIGCOMM 2008)
  kTorus,         ///< a router per node, rings along each dimension
  kMesh,          ///< the same without the cables that close the rings
  kDimensions,    ///< a stack of networks, one per dimension of the nodes' numbers
  kGraph,         ///< switches and cables one by one
};

/// As a configuration and a summary write them.
inline constexpr std::array kTopologyKinds =
    std::to_array<std::pair<std::string_view, TopologyKind>>({
        {"single_switch", TopologyKind::kSingleSwitch},
        {"leaf_spine", TopologyKind::kLeafSpine},
        {"rail", TopologyKind::kRail},
        {"fat_tree", TopologyKind::kFatTree},
        {"torus", TopologyKind::kTorus},
        {"mesh", TopologyKind::kMesh},
        {"dimensions", TopologyKind::kDimensions},
        {"graph", TopologyKind::kGraph},
    });

/// How a pair of NICs chooses among its shortest paths. Listed routes come first in every mode.
enum class RoutingMode {
  kEcmp,            ///< by flow hash
  kSpray,           ///< every packet anew
  kStatic,          ///< the first one, always
  kDimensionOrder,  ///< torus and mesh: the lowest dimension first
};

/// One kind of cable; both directions alike.
struct LinkConfig {
  Rate rate;
  Duration latency;
};

struct DimensionConfig {
  enum class Kind { kRing, kFullyConnected, kSwitch };
  Kind kind = Kind::kRing;
  uint32_t size = 1;
  LinkConfig link;
};

struct SwitchConfig {
  std::string name;
  uint8_t tier = 1;
  unsigned line = 0;
};

/// Cables of kGraph: from each vertex that fits `a` to each that fits `b`.
struct CableConfig {
  std::string a, b;          ///< names of switches and NICs, or patterns with '*'
  std::optional<Rate> rate;  ///< without: the NIC's own link's
  std::optional<Duration> latency;
  uint32_t count = 1;
  unsigned line = 0;
};

struct LinkOverrideConfig {
  LinkName link;
  std::optional<Rate> rate;
  std::optional<Duration> latency;
  std::optional<double> loss;
  std::vector<GraphLink::Outage> down;  ///< ascending, apart
  unsigned line = 0;
};

struct StaticRouteConfig {
  std::string from, to;          ///< NICs, or patterns with '*'
  std::vector<std::string> via;  ///< every switch on the way
  unsigned line = 0;
};

struct TopologyConfig {
  TopologyKind kind = TopologyKind::kSingleSwitch;
  RoutingMode routing = RoutingMode::kEcmp;
  /// Routes leave a link out that has been down for so long, and take it back; nothing: they stay.
  std::optional<Duration> reconverge;
  unsigned line = 0;
  // kLeafSpine and kRail; for kRail leaves are those of one rail, one per group of nodes.
  uint32_t hosts_per_leaf = 0, leaves = 0, spines = 0, links_per_spine = 1;
  LinkConfig uplink;                        ///< and kFatTree: edge to aggregation
  LinkConfig core_uplink;                   ///< kFatTree: aggregation to core
  uint32_t k = 0;                           ///< kFatTree: ports of a switch
  std::vector<uint32_t> dims;               ///< kTorus, kMesh: the first varies fastest
  LinkConfig link;                          ///< kTorus, kMesh: between routers
  std::vector<DimensionConfig> dimensions;  ///< kDimensions: innermost first
  std::vector<SwitchConfig> switches;       ///< kGraph
  std::vector<CableConfig> cables;          ///< kGraph
  std::vector<LinkOverrideConfig> overrides;
  std::vector<StaticRouteConfig> routes;
};

/// What joins the GPUs and NICs inside every node; an absent link is not modelled.
struct IntraNodeConfig {
  std::optional<LinkConfig> gpu_link;  ///< each GPU to the node's NVSwitch
  std::optional<LinkConfig> pcie;      ///< each NIC to the NVSwitch, or else to its GPUs
};

}  // namespace understudy
