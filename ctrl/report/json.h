// The report as JSON, schema "understudy-report/1": ctrl/report/report.schema.json.
#pragma once

#include <string>

#include "ctrl/report/run_report.h"
#include "dataplane/base/result.h"

namespace understudy {

inline constexpr char kReportSchema[] = "understudy-report/1";

/// Indented text with a newline at its end. Keys stand in a fixed order and times are integer
/// picoseconds, so equal reports are equal texts. After judge().
std::string report_json(const RunReport& report);

/// Writes it to a file, which is replaced in one step. An error names the file.
Result<void> write_report(const RunReport& report, const std::string& path);

}  // namespace understudy
