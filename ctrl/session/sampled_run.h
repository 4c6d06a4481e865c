// Samples of a run with a real node in virtual time: its network, the [[traffic]] beside it, and
// the queue pairs of its jobs that are under congestion control.
#pragma once

#include <functional>
#include <memory>

#include "ctrl/session/link_ends.h"
#include "ctrl/session/series_options.h"
#include "ctrl/session/switched_run.h"
#include "ctrl/session/traffic_series.h"
#include "dataplane/app/simulation.h"
#include "dataplane/base/result.h"

namespace understudy {

class SampledRun {
 public:
  /// Before `run` enters its shard; both outlive this. Error: the file cannot be written.
  static Result<std::unique_ptr<SampledRun>> create(const SeriesOptions& options, SwitchedRun& run);

  /// They outlive this.
  void watch(const std::vector<ControlledPair>& pairs);
  /// Runs and takes samples until `over` says so, or nothing happens any more but timers, as in a
  /// deadlock. `shard` is the one
  /// that `run` has entered.
  Result<void> run(Simulation& simulation, const Shard& shard, const std::function<bool()>& over);
  /// Ends the file, and draws the plot if one is wanted. `snapshot`: the shard's, at the end.
  Result<void> finish(const std::string& heading, const ShardSnapshot& snapshot);

 private:
  explicit SampledRun(SwitchedRun& run) : run_(run) {}

  SwitchedRun& run_;
  std::unique_ptr<TrafficSeries> series_;
};

}  // namespace understudy
