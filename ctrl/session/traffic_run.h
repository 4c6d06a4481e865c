// A run of the [[traffic]] of a configuration in virtual time, without a real node.
#pragma once

#include <functional>
#include <string>

#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "ctrl/session/series_options.h"
#include "dataplane/base/result.h"

namespace understudy {

/// The report is judged; with `timeline` it has tracks of the jobs' messages. `progress`: lines for
/// a person; may be empty.
Result<RunReport> run_traffic(const Config& config,
                              const std::function<void(const std::string&)>& progress,
                              const SeriesOptions& series = {}, bool timeline = false);

/// Error: a pattern of names fits nothing in this configuration.
Result<void> check_series(const Config& config, const SeriesOptions& series);

}  // namespace understudy
