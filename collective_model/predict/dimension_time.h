// How long a collective takes on a stack of dimensions (ring, fully connected, switch), each with
// an algorithm of its own: the closed forms that the analytical simulators of this field use, in
// integer picoseconds. No packets, no credits: a message is its latency and its bytes.
//
// A collective is cut into `splits` chunks of whole bytes, and a smaller one of the bytes that are
// left, if any. All-reduce of a chunk is a reduce-scatter in every dimension but the last, from the
// innermost on, an all-reduce in the last, and all-gathers back; all-gather starts with the
// outermost; reduce-scatter and all-to-all with the innermost. A dimension carries one chunk at a
// time, first come, first served. This is the hierarchy of ASTRA-sim 2 (astra-sim/system/Sys.cc,
// with "localBWAware") and of Themis' baseline.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/nccl/operation.h"
#include "dataplane/base/units.h"

namespace understudy {

enum class DimensionKind : uint8_t { kRing, kFullyConnected, kSwitch };

/// What ranks of one dimension do with each other.
enum class DimensionAlgorithm : uint8_t {
  kRing,            ///< n-1 steps of an n-th to the successor
  kDirect,          ///< one step, an n-th to each of the others at once
  kHalvingDoubling  ///< log2 n steps with partners at distances of powers of two
};

inline constexpr Named<DimensionAlgorithm> kDimensionAlgorithmNames[] = {
    {"ring", DimensionAlgorithm::kRing},
    {"direct", DimensionAlgorithm::kDirect},
    {"halving_doubling", DimensionAlgorithm::kHalvingDoubling},
};

struct Dimension {
  DimensionKind kind = DimensionKind::kRing;
  uint32_t size = 1;  ///< ranks along it
  Rate rate;          ///< of a link, each way
  Duration latency;   ///< of a link; through a switch are two of them
  DimensionAlgorithm algorithm = DimensionAlgorithm::kRing;
};

/// What a step costs beside its links, and how the simulators differ.
struct DimensionCosts {
  Duration endpoint;  ///< per message, at the rank that receives it
  Rate memory;        ///< a reduction reads two operands and writes one; unlimited: free
  bool store_and_forward = false;  ///< a switch takes a whole message before it sends it on
  bool shared_links = true;        ///< messages of one step that a link carries wait for each other
  Duration rounding = Duration::ps(1);  ///< times of messages and reductions are rounded down to it
};

/// From the start of the collective on all ranks at once until its end. `bytes` as nccl-tests count
/// them (of the larger buffer), `splits` >= 1. The collective is all_reduce, all_gather,
/// reduce_scatter or all_to_all. Of a chunk each rank gets the n-th, rounded down to whole bytes, as
/// that simulator divides; what is left over is not sent. Duration::max(): it takes at least as
/// long.
Duration dimensions_time(const std::vector<Dimension>& dimensions, Collective collective,
                         uint64_t bytes, uint32_t splits, const DimensionCosts& costs);

/// Why this dimension cannot run its algorithm; empty if it can.
const char* why_not(const Dimension& dimension);

}  // namespace understudy
