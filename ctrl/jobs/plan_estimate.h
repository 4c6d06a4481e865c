// Where a job's plan has not the times of packets, and packets cannot be: a fluid estimate. Of each
// operation that can be followed as flows with max-min fair rates, all of the plan's rates are
// raised alike, until with all ranks emulated it takes as long as these; unless inner = "times"
// asks for the plan as it is.
//
// What packets take lies between the plan whose every message has its NIC alone, and the plan as it
// is, in which all connections of a NIC are busy all the time.
#pragma once

#include <string>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/config.h"

namespace understudy {

struct PlanEstimate {
  std::vector<PlanInput> inputs;  ///< instead of CollectiveSetup::inputs; empty: these hold
  std::string doubt;              ///< a sentence: why, and how far off it may be
};

/// Empty where the plan holds or is not used.
PlanEstimate plan_estimate(const Config& config, const JobConfig& job,
                           const CollectiveSetup& setup);

}  // namespace understudy
