// From a configuration's [[traffic]] to the flows that it stands for, one by one.
#pragma once

#include <cstdint>
#include <tl/expected.hpp>
#include <vector>

#include "ctrl/build/topology.h"
#include "ctrl/config/config.h"
#include "ctrl/config/load.h"
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

/// The path of a flow that has none of its own: the routing's choice by the flow's number, or by
/// its connection's, which is one flow to the switches. Empty if its ends are not joined.
std::vector<LinkId> path_of_flow(Routes& routes, const std::vector<FlowSpec>& flows, size_t i);

}  // namespace understudy
