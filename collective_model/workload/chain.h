// The workload of one job: its operations one after another, and what each rank computes before
// them, as iteration.h says.
#pragma once

#include <cstdint>
#include <functional>

#include "collective_model/iteration/iteration.h"
#include "collective_model/workload/workload.h"

namespace understudy {

struct Chain {
  uint32_t ranks = 0;
  uint32_t operations = 0;
  Time start = {};        ///< no rank begins before
  bool computes = false;  ///< there may be computing in the steps
  bool alike = false;     ///< steps of rank 0 are those of all
  std::function<EntryStep(uint32_t operation, uint32_t rank)> step = {};
};

/// Appends it as a group, whose number it gives. The group's first node is its start.
uint32_t add_chain(Workload& workload, const Chain& chain);

}  // namespace understudy
