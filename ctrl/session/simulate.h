// A run in virtual time: a real node is a reference node in this process, or a kernel of its own.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "ctrl/session/series_options.h"
#include "dataplane/base/result.h"

namespace understudy {

struct SimulateOptions {
  std::string capture_path;           ///< empty: none
  std::vector<EventConfig> commands;  ///< live changes beside the configuration's
  bool timeline = false;              ///< the report has messages of jobs
  std::string feed_path;  ///< records of the one fed job's feed; empty: the reference node's
  SeriesOptions series;   ///< of [[traffic]]
  /// Of kernels only. Longest that one may compute without a word, in the host's time.
  int patience_ms = 60'000;
  /// The number of a signal ends the run; may be null.
  const std::atomic<int>* signal = nullptr;
  std::function<void(const std::string&)> progress;  ///< lines for a person; may be empty
};

/// Runs all jobs of the configuration to their end. The report is judged.
Result<RunReport> simulate(const Config& config, const SimulateOptions& options);

}  // namespace understudy
