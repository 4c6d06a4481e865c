// The flows and links of a run of [[traffic]] as people read them.
#pragma once

#include <string>

#include "ctrl/report/flow_report.h"

namespace understudy {

/// A line for each [[traffic]] table, and the links that waited, marked, paused or lost most.
std::string traffic_table(const TrafficReport& traffic);

}  // namespace understudy
