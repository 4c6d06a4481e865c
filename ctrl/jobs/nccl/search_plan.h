// The plan of a job of NCCL's, once its real ranks have said what their search found.
#pragma once

#include <cstdint>
#include <string>

#include "ctrl/config/config.h"
#include "ctrl/jobs/job_runner.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Before the first connection of the job's is asked for: its plan has the trees of so many channels
/// of the search, and may begin. Returns a line, empty if the plan was right. Error: there is no
/// such plan.
Result<std::string> settle_plan(const Config& config, JobRunner& runner, size_t job,
                                uint32_t search_channels);

}  // namespace understudy
