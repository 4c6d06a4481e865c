// A job of the report as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ctrl/report/run_report.h"

namespace understudy {

/// `real_time`: of a run in which the pace of real nodes is looked at.
nlohmann::ordered_json job_json(const JobReport& job, bool real_time);

nlohmann::ordered_json iteration_json(const IterationReport& iteration);

}  // namespace understudy
