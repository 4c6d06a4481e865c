// The jobs of a configuration as one workload.
#pragma once

#include <vector>

#include "collective_model/iteration/iteration.h"
#include "collective_model/workload/workload.h"
#include "ctrl/config/config.h"

namespace understudy {

/// Job j is group j: a chain of its operations from its `start` on. One that comes after other jobs
/// begins on each rank when the last operations of these are done: on the ranks of the same node, or
/// on all ranks where the other job has none there.
Workload job_workload(const Config& config);

/// The same of one job alone.
Workload job_workload(const Config& config, const JobConfig& job);

}  // namespace understudy
