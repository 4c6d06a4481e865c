// What execution traces came to, as JSON.
#pragma once

#include "ctrl/report/json/parts.h"
#include "ctrl/report/workload/trace_report.h"

namespace understudy {

report_parts::Json trace_report_json(const TraceReport& traces);

}  // namespace understudy
