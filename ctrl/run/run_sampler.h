// Samples of a run, whatever its clock: its network, the flows on it, and the queue pairs of its
// jobs that are under congestion control. In virtual time they are taken between events. In real
// time the network's shard takes them, a few at a time: a round is so many commands, each with its
// own moment.
#pragma once

#include <functional>
#include <memory>

#include "ctrl/jobs/link_ends.h"
#include "ctrl/network/series_options.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/network/traffic_series.h"
#include "ctrl/run/emulator.h"
#include "dataplane/base/result.h"
#include "dataplane/virtual_time/simulation.h"

namespace understudy {

class RunSampler {
 public:
  /// Queue pairs that are there, whenever it is asked.
  using Pairs = std::function<std::vector<const std::vector<ControlledPair>*>()>;

  /// `emulator` outlives this. Null: no series is wanted. Errors: there is no network; the file
  /// cannot be written.
  static Result<std::unique_ptr<RunSampler>> create(const SeriesOptions& options,
                                                    Emulator& emulator, Pairs pairs = nullptr);

  // In virtual time:

  /// Runs and takes samples until `over` says so, or nothing happens any more but timers, as in a
  /// deadlock.
  Result<void> run(Simulation& simulation, const std::function<bool()>& over);
  /// Runs until `until` and takes the samples of that time.
  Result<void> run_until(Simulation& simulation, Time until);

  // In real time:

  /// Control's turn: begins a round once it is time for one, and the last one is in the file.
  void turn(Time now);

  /// Ends the file, and draws the plot if one is wanted. `end`: of the run.
  Result<void> finish(const std::string& heading, Time end);

 private:
  static constexpr uint32_t kSamplesBetweenLooks = 1024;
  /// Of a round, from one command to the next: packets go on between them.
  static constexpr Duration kSpread = Duration::us(50);
  /// Most that a shard looks at in a round: of links and flows, and of queue pairs, which it does
  /// all at once.
  static constexpr size_t kMostProbes = 32, kMostPairProbes = 4;

  RunSampler(const SeriesOptions& options, Emulator& emulator, Pairs pairs)
      : emulator_(emulator),
        network_(*emulator.network()),
        interval_(options.interval),
        pairs_(std::move(pairs)) {}
  SampleProbe empty_probe() const;
  Result<void> make_probes();
  void probe_queue_pairs();
  void on_answer();
  void sample();

  Emulator& emulator_;
  const SharedNetwork& network_;
  std::unique_ptr<TrafficSeries> series_;
  const Duration interval_;
  Pairs pairs_;
  std::vector<SampleProbe> probes_;  ///< of links and flows, and then those of queue pairs
  size_t of_queue_pairs_ = 0;        ///< the first of these
  std::vector<std::vector<std::string>> names_;  ///< of the queue pairs of each
  size_t outstanding_ = 0;                       ///< probes of this round without an answer
  Time next_round_;
};

}  // namespace understudy
