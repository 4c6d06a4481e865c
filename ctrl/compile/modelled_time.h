// What operations take that follow each other, when nothing but the model delays them.
#pragma once

#include <vector>

#include "ctrl/compile/collective.h"
#include "dataplane/base/result.h"

namespace understudy {

/// What each operation takes with every rank emulated, as the real ranks see it: from the first
/// one's entry until the last one has done its part. Of thousands of ranks it takes seconds. Error:
/// numbers of the plan do not fit together.
Result<std::vector<Duration>> modelled_times(const CollectiveSetup& setup);
/// The same with other inputs of plans than CollectiveSetup::inputs.
Result<std::vector<Duration>> modelled_times(const CollectiveSetup& setup,
                                             const std::vector<PlanInput>& inputs);

/// Of one operation of `job` whose plan `input` is of, as the first one. Error: as above.
Result<Duration> modelled_time(const CollectiveJob& job, const PlanInput& input);

}  // namespace understudy
