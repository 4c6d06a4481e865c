// What a topology amounts to: counts, capacities, bisection bandwidth, longest path. All exact,
// from the graph alone, whatever its kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctrl/topology/topology.h"

namespace understudy {

/// Vertices that are alike: by kind and tier, and by the letters in front of their numbers.
struct VertexGroup {
  std::string name;  ///< "NIC", "GPU", "leaf", "router"
  uint8_t tier = 0;
  uint32_t count = 0;
  // Of the one with the largest ratio of these two: rates of its links to lower and higher tiers.
  // Those with links to their own tier are left out.
  uint64_t down_bps = 0, up_bps = 0;
  bool uniform = true;  ///< all have this ratio

  /// Down over up; 0 where nothing leads up.
  double oversubscription() const {
    return up_bps == 0 ? 0 : static_cast<double>(down_bps) / static_cast<double>(up_bps);
  }
};

/// Cables between two groups.
struct CableGroup {
  uint32_t a = 0, b = 0;  ///< positions of the groups
  uint64_t cables = 0;
  Rate slowest, fastest;  ///< of either direction
  Duration shortest, longest;
};

struct LongestPath {
  std::vector<std::string> names;  ///< of all vertices on the way
  uint32_t links = 0;
  Duration latency;
  uint64_t alternatives = 0;  ///< shortest paths of this pair
  /// Destinations that were looked at: all kinds of place, or this many of them spread evenly.
  size_t seen = 0, places = 0;
};

struct TopologySummary {
  size_t nodes = 0, nics = 0, gpus = 0;
  std::vector<VertexGroup> groups;
  std::vector<CableGroup> cables;
  /// Maximum flow from the first half of all NICs (rounded down), in the order of the
  /// configuration, to the others.
  uint64_t bisection_bps = 0;
  uint64_t half_bps = 0;  ///< what the NICs of the first half can send
  LongestPath longest;    ///< most links; among those the highest latency
};

/// `graph` of the configuration's nodes.
TopologySummary summarize(const Config& config, const Topology& topology);

/// The group of each vertex, by its position in the summary's list.
std::vector<uint32_t> group_vertices(const Graph& graph, std::vector<VertexGroup>& groups);

/// As `understudy topo` prints it.
std::string summary_text(const Config& config, const TopologySummary& summary);
/// The same as JSON, indented.
std::string summary_json(const Config& config, const TopologySummary& summary);

/// "100 Gbit/s", "2.5 Tbit/s".
std::string rate_text(uint64_t bps);
/// As in [topology] kind.
std::string kind_name(TopologyKind kind);

}  // namespace understudy
