// A run in virtual time: a real node is a reference node in this process, or a kernel of its own; or
// there is none, and flows have the network alone.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "ctrl/compile/scenario.h"
#include "ctrl/network/series_options.h"
#include "ctrl/report/run_report.h"
#include "dataplane/base/result.h"

namespace understudy {

struct SimulateOptions {
  std::string capture_path;  ///< empty: none
  bool timeline = false;     ///< the report has messages of jobs
  std::string feed_path;     ///< records of the one fed job's feed; empty: the reference node's
  SeriesOptions series;      ///< of its network
  /// Of kernels only. Longest that one may compute without a word, in the host's time.
  int patience_ms = 60'000;
  /// The number of a signal ends the run; may be null.
  const std::atomic<int>* signal = nullptr;
  std::function<void(const std::string&)> progress;  ///< lines for a person; may be empty
};

/// Runs all jobs and flows to their end. `scenario` is in virtual time, compiled for these options.
/// The report is judged.
Result<RunReport> simulate(const Scenario& scenario, const SimulateOptions& options);

}  // namespace understudy
