// The report as people read it.
#pragma once

#include <string>

#include "ctrl/report/run_report.h"

namespace understudy {

/// A job's sizes in nccl-tests' columns, and beside them the model's time, the difference and the
/// verdict. Lines that are not rows start with '#'. After judge().
std::string job_table(const JobReport& job);

/// All jobs' tables, drills, the services' clients, the verdict with its first reasons, and how far to
/// trust all of it.
std::string report_table(const RunReport& report);

/// What each drill came to, a line each.
std::string drills_text(const RunReport& report);

/// The verdict with at most `most` reasons, a line each.
std::string verdict_text(const RunReport& report, size_t most);

}  // namespace understudy
