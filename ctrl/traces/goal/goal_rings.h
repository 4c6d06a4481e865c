// Collectives as messages between ranks, for programs that know no collectives.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/traces/trace_graph.h"

namespace understudy {

/// One step of a rank in a collective: what it sends, and what it receives.
struct CutStep {
  uint32_t to = 0, from = 0;        ///< places in the group
  uint64_t sent = 0, received = 0;  ///< bytes, at least one
  /// What it sends is what it received in the step before, or made of it.
  bool forwards = true;
};

/// Whether cut_collective() has steps for it.
bool cuts(TraceCollective collective);

/// Steps of the rank at `place` of `ranks`: none of one rank. Bytes as TraceNode::bytes; parts of an
/// all-reduce and of a reduce-scatter differ by a byte where their number does not divide. The ranks of a
/// group send in a step what others receive in it.
std::vector<CutStep> cut_collective(TraceCollective collective, uint64_t bytes, uint32_t ranks,
                                    uint32_t place);

}  // namespace understudy
