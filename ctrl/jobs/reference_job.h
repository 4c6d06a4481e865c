// A job in virtual time whose real ranks are on reference nodes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/jobs/emulated_ranks_binding.h"
#include "ctrl/jobs/ranks_host.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/report/run_report.h"
#include "ctrl/shards/shard_control.h"

namespace understudy {

/// Both sides of a real node's NIC.
struct NicSides {
  ShardControl* emulator = nullptr;
  ShardControl* reference = nullptr;
};

class ReferenceJob {
 public:
  /// Connects all ranks. `sides`: of a real node's NIC, which has a port. `feed`: the file of a job
  /// whose operations are fed; empty: what the reference node does. `config` outlives this.
  static Result<std::unique_ptr<ReferenceJob>> create(
      const Config& config, size_t job, std::unique_ptr<JobState> state,
      const std::function<NicSides(NodeId, uint32_t)>& sides, const std::string& feed);

  /// Before start(): keeps when messages did what.
  void record() { emulated_->record(); }
  void start();
  /// All operations are done, or have failed.
  bool over() const;
  /// Operations that each of its nodes has done, all together.
  uint64_t progress() const;
  /// Queue pairs under congestion control, of emulated ranks and then of real ones.
  std::vector<const std::vector<ControlledPair>*> controlled() const;

  // Once nothing runs any more.

  /// The emulated ranks' view, and beside it the reference nodes' own times and verification.
  JobReport report();
  void add_timeline(std::vector<TimelineTrack>& tracks) const;

 private:
  ReferenceJob(const Config& config, size_t job) : config_(config), job_(job) {}
  Result<void> connect(const std::function<NicSides(NodeId, uint32_t)>& sides);
  Result<void> follow(const std::string& feed);
  Time begun(uint32_t rank) const {
    return state_->ranks.workload->begun(state_->ranks.group, rank);
  }
  std::vector<IterationReport> iteration_reports() const;
  void add_compute(std::vector<TimelineTrack>& tracks) const;
  void add_reference(CollectiveReport& report, size_t operation) const;
  const CollectiveSetup& setup() const { return *state_->setup; }
  const JobConfig& job() const { return config_.jobs[job_]; }

  const Config& config_;
  const size_t job_;
  std::unique_ptr<JobState> state_;
  std::unique_ptr<EmulatedRanksBinding> emulated_;
  std::vector<std::unique_ptr<RanksHost>> ranks_;  ///< of its real nodes
};

}  // namespace understudy
