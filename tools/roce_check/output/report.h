// What roce-check says: a summary for people, and the same as JSON.
#pragma once

#include <string>

#include "tools/roce_check/checks/analysis.h"

namespace understudy {

/// Several lines of text; `path` is the capture's name.
std::string report_text(const Analysis& analysis, const std::string& path);
/// schema "understudy-roce-check/2", see report.schema.json. Times are in picoseconds, sizes in
/// bytes.
std::string report_json(const Analysis& analysis, const std::string& path);

}  // namespace understudy
