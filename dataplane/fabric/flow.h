// A flow: so many bytes from one NIC to another. What background traffic, other jobs and the
// oracles' cases are made of; carried packet by packet (network.h) or as a rate (max_min.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/fabric/graph.h"

namespace understudy {

struct FlowSpec {
  std::string name;                           ///< "incast 3", or the id that a flow file gave it
  VertexId from = kNoVertex, to = kNoVertex;  ///< NICs
  uint64_t bytes = 0;                         ///< payload
  /// When it starts: this long after time zero, or after the last flow of `after` has come in
  /// whole.
  Duration start;
  std::vector<uint32_t> after;  ///< positions of other flows in the same list
  std::vector<LinkId> path;     ///< all links from NIC to NIC; empty: the routing's choice
  uint8_t priority = 0;         ///< priority class, 0..7
  uint32_t control = 0;         ///< position in the list of congestion controls
};

}  // namespace understudy
