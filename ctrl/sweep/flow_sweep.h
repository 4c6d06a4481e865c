// The flows of one or several configurations under several congestion controls, each for several
// seeds: percentiles of their slowdown by size, with what chance leaves open.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "dataplane/base/result.h"

namespace understudy {

/// One curve: a configuration, and the control that all of its [[traffic]] is put under.
struct SweepCase {
  std::string name;
  const Config* config = nullptr;
  uint32_t control = kNoControl;
  bool as_configured = true;  ///< each table keeps its own control instead
};

struct SweepOptions {
  uint32_t seeds = 1;    ///< the configuration's, and those that follow
  uint32_t threads = 1;  ///< so many runs at once; the result does not depend on it
  std::function<void(const std::string&)> progress;  ///< lines for a person; may be empty
  /// Hears of each run, curve by curve and seed by seed. May be empty. Error: it ends the sweep.
  std::function<Result<void>(const SweepCase&, uint64_t seed, const RunReport&)> done;
};

/// Of several values, one a seed.
struct Estimate {
  uint32_t seeds = 0;
  double mean = 0;
  /// Half of the 95 % confidence interval of the mean, by Student's t distribution, for values that
  /// are drawn independently from a normal one; 0 of a single seed, which has none.
  double half_width = 0;
};
Estimate estimate(const std::vector<double>& values);

/// One size.
struct SweepRow {
  uint64_t above = 0, most = 0;  ///< bytes, as SlowdownBucket
  uint64_t flows = 0;            ///< of all seeds
  std::array<Estimate, kPercentiles.size()> at;
  std::array<bool, kPercentiles.size()> too_few{};  ///< in some seed it is the largest value
};

struct SweepCurve {
  std::string name;
  uint64_t first_seed = 0;
  std::vector<SweepRow> rows;     ///< by size
  SweepRow all;                   ///< of all sizes
  std::vector<double> slowdowns;  ///< of all flows of all seeds, ascending
  uint64_t unended = 0;           ///< flows that did not come in
};

struct FlowSweep {
  uint32_t seeds = 0;
  std::vector<SweepCurve> curves;
  std::vector<ValidityLine> validity;  ///< of all runs, each once
};

/// Runs all. Errors name the curve and the seed: what compiling and simulate() refuse; no table of
/// slowdowns.
Result<FlowSweep> sweep_flows(const std::vector<SweepCase>& cases, const SweepOptions& options);

/// Tables for a person: one for each percentile, with a column for each curve.
std::string sweep_text(const FlowSweep& sweep);
/// The same as CSV: a line for each curve and size, sizes in bytes.
std::string sweep_csv(const FlowSweep& sweep);
/// A script for gnuplot: percentiles by size with their confidence intervals, and the distribution
/// of all slowdowns; all curves in one picture.
std::string sweep_script(const FlowSweep& sweep, const std::string& file,
                         const std::string& heading);

/// The first line of a file of flows, and those of one run.
std::string flow_rows_header();
std::string flow_rows(const std::string& curve, const RunReport& report);

}  // namespace understudy
