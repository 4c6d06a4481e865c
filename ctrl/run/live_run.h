// A run in real time: devices, the packet thread, out-of-band servers on the emulated nodes' own
// addresses, jobs and services, live changes, and the report at the end.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/compile/scenario.h"
#include "ctrl/network/series_options.h"
#include "ctrl/report/run_report.h"
#include "dataplane/base/result.h"

namespace understudy {

struct LiveRunOptions {
  std::string capture_path;                  ///< empty: none
  std::string control_path;                  ///< UNIX socket for live commands; empty: none
  std::optional<Duration> duration;          ///< ends the run; without it jobs do, or a signal
  Duration linger = Duration::ms(200);       ///< stays after the last job: sockets carry a goodbye
  bool timeline = false;                     ///< the report has messages of jobs
  SeriesOptions series;                      ///< of the network
  bool verbose = false;                      ///< DPDK's own log
  const std::atomic<int>* signal = nullptr;  ///< number of the signal that ends the run, or 0
  std::function<void(const std::string&)> progress;  ///< lines for a person; may be empty
};

/// Why a run could not begin (bad input) or broke off.
struct RunError {
  std::string text;
  bool bad_input = false;
};

/// `scenario` is in real time. Runs until all jobs are done, the duration is over or a signal comes.
/// The report is judged.
tl::expected<RunReport, RunError> run_live(const Scenario& scenario, const LiveRunOptions& options);

}  // namespace understudy
