// What roce-check says: a summary for people, and the same as JSON.
#pragma once

#include <string>

#include "tools/roce_check/between/two_ends.h"
#include "tools/roce_check/checks/analysis.h"

namespace understudy {

/// Several lines of text; `path` is the capture's name.
std::string report_text(const Analysis& analysis, const std::string& path);
/// schema "understudy-roce-check/2", see report.schema.json. Times are in picoseconds, sizes in
/// bytes.
std::string report_json(const Analysis& analysis, const std::string& path);
/// schema "understudy-roce-check-ends/1": the reports of two captures, and what lies between.
std::string ends_json(const Analysis& a, const std::string& path_a, const Analysis& b,
                      const std::string& path_b, const Between& between);

}  // namespace understudy
