// [[traffic]] of the report as JSON, and jobs without a real node, which are flows like it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ctrl/report/run_report.h"

namespace understudy {

nlohmann::ordered_json traffic_json(const TrafficReport& traffic);

}  // namespace understudy
