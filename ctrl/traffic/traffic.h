// From a configuration's [[traffic]] to the flows that it stands for, one by one.
#pragma once

#include <cstdint>
#include <tl/expected.hpp>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/config/read/load.h"
#include "ctrl/topology/topology.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

struct Traffic {
  std::vector<FlowSpec> flows;
  /// By [[traffic]] table: its first flow; and the number of all flows at the end.
  std::vector<uint32_t> first;
};

/// A function of its arguments only: equal configurations and seeds give equal flows. Paths are
/// left to the routing, but for flows of a file that name their switches. Errors name the line of
/// the flow file.
tl::expected<Traffic, std::vector<ConfigError>> build_traffic(const Config& config,
                                                              const Topology& topology);

/// The first number that no connection of `flows` has.
uint32_t connection_count(const std::vector<FlowSpec>& flows);

/// What tells a flow from others of its pair when the routing chooses by hash: its connection, which
/// is one flow to the switches, or else its position. The way of a connection does not depend on how
/// many messages it has.
constexpr uint64_t hash_number(uint32_t connection) { return (uint64_t{1} << 32) + connection; }
uint64_t hash_number(const std::vector<FlowSpec>& flows, size_t i);

}  // namespace understudy
