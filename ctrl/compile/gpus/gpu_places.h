// GPUs of nodes that a job fills one by one: where each is, its NIC, and that the nodes are alike.
#pragma once

#include <cstdint>
#include <string>

#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"

namespace understudy {

/// A GPU of a node.
struct GpuPlace {
  NodeId node = 0;
  uint32_t gpu = 0;
};

/// NIC of a GPU, by its number on the node; and in the topology.
uint32_t nic_number(const Config& config, const GpuPlace& gpu);
VertexId nic_of(const Config& config, const Topology& topology, const GpuPlace& gpu);

/// The first `needed` nodes, of which there are so many, have as many GPUs and NICs as the first one, and none
/// is real. An error names the node, its line, and `job`, such as "a [model]".
Result<void> check_equal_nodes(const Config& config, uint64_t needed, const std::string& job);

}  // namespace understudy
