// JUnit's XML, as CI systems read it: a test suite for a run, a test case for each drill and one for
// the run itself.
#pragma once

#include <string>

#include "ctrl/report/run_report.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Of a judged report. The last test case is the run's verdict.
std::string junit_xml(const RunReport& report);
/// Of a run without a report: one test case, which broke off for this reason.
std::string junit_error(const std::string& configuration, const std::string& why);
Result<void> write_junit(const std::string& xml, const std::string& path);

}  // namespace understudy
