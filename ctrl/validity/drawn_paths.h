// Whether it matters which of several paths the routing's hash gives to flows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctrl/topology/topology.h"

namespace understudy {

/// From NIC to NIC; any number of flows of theirs are given one by one.
struct NicPair {
  VertexId from = kNoVertex, to = kNoVertex;
};

/// Whether hashes have anything to choose among: there is a circle somewhere.
bool hash_chooses(const Topology& topology);

/// Whether another seed could give other times: flows may meet on a link that some of them need not
/// take, and that is too slow for all of them; or the links among which a flow's hash chooses are
/// not alike, or `change` one by one while it runs. All flows count as if they were sent at the
/// same time. Looks at 65,536 pairs at most, spread over the list.
bool paths_matter(const Topology& topology, const std::vector<NicPair>& pairs, bool change);

/// The name of a link behind a switch that is slower than the senders of all flows over it
/// together, by the paths that `seed` gives. Empty: there is none. Looks at as many pairs.
std::string shared_link(const Topology& topology, uint64_t seed, const std::vector<NicPair>& pairs);

}  // namespace understudy
