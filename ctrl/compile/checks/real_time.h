// Whether a machine is fast enough for a scenario in real time.
#pragma once

#include "ctrl/compile/scenario.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Error, with file and line: this machine cannot carry packet by packet in real time what emulated
/// nodes of the scenario, whose jobs are planned, send one another (real_time_budget.h). Measuring
/// takes some tens of milliseconds where there is anything to carry.
Result<void> check_real_time(const Scenario& scenario);

}  // namespace understudy
