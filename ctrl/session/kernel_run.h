// A run in virtual time whose real nodes are kernels: User-mode Linux guests, each with a program
// of the user's, beside emulated nodes that answer as in a run in real time, and reference nodes.
#pragma once

#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "ctrl/session/simulate.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Runs until all programs and reference nodes' jobs have ended, or a signal comes. The report is
/// judged.
Result<RunReport> run_kernels(const Config& config, const SimulateOptions& options);

}  // namespace understudy
