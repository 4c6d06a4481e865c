// A job in virtual time whose real ranks are on reference nodes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ctrl/build/collective.h"
#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "ctrl/session/environment_host.h"
#include "ctrl/session/ranks_host.h"
#include "ctrl/session/shard_control.h"
#include "ctrl/session/switched_run.h"

namespace understudy {

/// Both sides of a real node's NIC.
struct NicSides {
  ShardControl* emulator = nullptr;
  ShardControl* reference = nullptr;
};

class ReferenceJob {
 public:
  /// Its plan; what its emulated ranks say to one another goes into `switched`, which may be null.
  static Result<std::unique_ptr<CollectiveSetup>> plan(const Config& config, const JobConfig& job,
                                                       SwitchedRun* switched);
  /// Connects all ranks. `sides`: of a real node's NIC, which has a port. `feed`: the file of a job
  /// whose operations are fed; empty: what the reference node does. `config` outlives this.
  static Result<std::unique_ptr<ReferenceJob>> create(
      const Config& config, size_t job, std::unique_ptr<CollectiveSetup> setup,
      const std::function<NicSides(NodeId, uint32_t)>& sides, const std::string& feed);

  /// Before start(): keeps when messages did what.
  void record() { environment_->record(); }
  void start();
  /// All operations are done, or have failed.
  bool over() const;
  /// Operations that each of its nodes has done, all together.
  uint64_t progress() const;
  /// Queue pairs under congestion control, of emulated ranks and then of real ones.
  std::vector<const std::vector<ControlledPair>*> controlled() const;

  // Once nothing runs any more.

  /// The environment's view, and beside it the reference nodes' own times and verification.
  JobReport report();
  void add_timeline(std::vector<TimelineTrack>& tracks) const;

 private:
  ReferenceJob(const Config& config, size_t job) : config_(config), job_(job) {}
  Result<void> connect(const std::function<NicSides(NodeId, uint32_t)>& sides);
  Result<void> follow(const std::string& feed);
  std::vector<IterationReport> iteration_reports() const;
  void add_compute(std::vector<TimelineTrack>& tracks) const;
  void add_reference(CollectiveReport& report, size_t operation) const;
  const JobConfig& job() const { return config_.jobs[job_]; }

  const Config& config_;
  const size_t job_;
  std::unique_ptr<CollectiveSetup> setup_;
  std::unique_ptr<EnvironmentHost> environment_;
  std::vector<std::unique_ptr<RanksHost>> ranks_;  ///< of its real nodes
};

}  // namespace understudy
