// What execution traces came to, for a person.
#pragma once

#include <string>

#include "ctrl/report/workload/trace_report.h"

namespace understudy {

/// When the ranks finished, the last ones first, and what their operations took.
std::string trace_table(const TraceReport& traces);

}  // namespace understudy
