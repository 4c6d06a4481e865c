// The ways between the ranks of an all-to-all, asked for pair by pair: a list of all would be
// longer than anything else that a plan keeps.
#pragma once

#include <cstdint>

#include "collective_model/plan/wire_cost.h"

namespace understudy {

class PairHops {
 public:
  virtual ~PairHops() = default;
  /// From a rank to one of another node, over the network. The same at all times; allocates
  /// nothing.
  virtual Hop hop(uint32_t from, uint32_t to) const = 0;
};

}  // namespace understudy
