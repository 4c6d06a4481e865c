// Configurations of topologies for tests: some equal nodes, and a [topology].
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/topology/topology.h"
#include "ctrl/topology/topology_summary.h"

namespace understudy {

/// Nodes "w0" ... with `nics` NICs of 100 Gbit/s and 1 us.
inline std::string nodes_text(unsigned count, unsigned nics = 1) {
  return "format = 1\n[[node]]\nname = \"w\"\ncount = " + std::to_string(count) +
         "\nnics = " + std::to_string(nics) +
         "\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
}

/// A network that was built, with its summary. A text that is wrong fails the test.
struct BuiltTopology {
  explicit BuiltTopology(const std::string& text) {
    const ConfigResult read = load_config_text(text, "t.toml");
    if (!read) {
      ADD_FAILURE() << describe(read.error());
      return;
    }
    config = *read;
    auto built = build_topology(config);
    if (!built) {
      ADD_FAILURE() << describe(built.error());
      return;
    }
    topology = std::move(*built);
    summary = summarize(config, topology);
  }

  const Graph& graph() const { return topology.graph; }
  VertexId at(const std::string& name) const { return topology.by_name.at(name); }
  uint32_t vertices(const std::string& group) const {
    for (const VertexGroup& one : summary.groups) {
      if (one.name == group) return one.count;
    }
    return 0;
  }
  /// "NIC - leaf"
  uint64_t cables(const std::string& name) const {
    for (const CableGroup& one : summary.cables) {
      if (summary.groups[one.a].name + " - " + summary.groups[one.b].name == name)
        return one.cables;
    }
    return 0;
  }
  double ratio(const std::string& group) const {
    for (const VertexGroup& one : summary.groups) {
      if (one.name == group) return one.oversubscription();
    }
    return -1;
  }
  std::string longest() const {
    std::string text;
    for (const std::string& name : summary.longest.names) text += (text.empty() ? "" : " ") + name;
    return text;
  }

  Config config;
  Topology topology;
  TopologySummary summary;
};

inline constexpr uint64_t kGigabit = 1'000'000'000;

}  // namespace understudy
