// What jobs all of whose ranks are emulated came to, put into a report.
#pragma once

#include "ctrl/compile/rank_job.h"
#include "ctrl/config/config.h"
#include "ctrl/report/flow_report.h"

namespace understudy {

/// Of a job whose ranks have done all their operations.
RankJobReport rank_job_report(const JobConfig& config, const RankJob& job);

}  // namespace understudy
