// How long a collective over several dimensions takes when all its ranks begin together: chunks pass
// the dimensions one after another, and a dimension carries one at a time, first come, first served
// (astra-sim/system/Sys.cc, generate_collective(), with "localBWAware" and one queue of each
// dimension).
#pragma once

#include <cstdint>
#include <vector>

namespace understudy {

/// What a chunk does in one dimension.
struct StackPhase {
  uint32_t dimension = 0;
  int64_t takes = 0;  ///< ns
};

/// In ns, of `chunks` that go through all phases; chunks times phases times their logarithm.
int64_t stack_time(const std::vector<StackPhase>& phases, uint64_t chunks);

}  // namespace understudy
