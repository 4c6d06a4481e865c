// The part of a report that is known before a run.
#pragma once

#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"

namespace understudy {

RunReport start_report(const Config& config, bool virtual_clock);

}  // namespace understudy
