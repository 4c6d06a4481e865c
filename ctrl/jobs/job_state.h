// A job in a run: its plan, and what changes of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/compile/scenario.h"
#include "ctrl/network/shared_network.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Where the model's times of operations come from.
enum class ModelKind : uint8_t {
  kPlan,     ///< its plan with every rank emulated
  kPackets,  ///< all its ranks packet by packet
};

/// Operations whose results are kept: all that the job lists, or the first ones of as many as its
/// programs start.
inline size_t operations_kept(const JobConfig& job, const CollectiveSetup& setup) {
  constexpr size_t kMost = size_t{1} << 16;
  return job.listed ? setup.job.operations.size() : kMost;
}

/// Does not move: shards hold pointers into it.
struct JobState {
  std::shared_ptr<const CollectiveSetup> setup;
  CollectiveState ranks;
  std::vector<PlanInput> fitted;   ///< its plans' input, where that is not the setup's
  std::vector<Duration> modelled;  ///< of each operation: the real ranks' view
  ModelKind model = ModelKind::kPlan;
  /// Of each operation's size.
  const std::vector<PlanInput>& inputs() const { return fitted.empty() ? setup->inputs : fitted; }
  std::string doubt;  ///< why these times, and the run's, are no better than an estimate, or empty
  /// The same when the run is over.
  std::string doubt_after(const CollectiveProgress& progress) const;
};

/// Of `job` that nobody has begun, whose plan `setup` is. `workload`: its group number `group` is
/// the job; null: ranks enter as real ones do. Error, with the job's line: numbers of the plan do
/// not fit together.
Result<std::unique_ptr<JobState>> begin_job(const Config& config, const JobConfig& job,
                                            std::shared_ptr<const CollectiveSetup> setup,
                                            WorkloadExecutor* workload = nullptr,
                                            uint32_t group = 0);

/// The same job again for who joins it next, once nothing of `former` runs any more: takes its plans
/// and the messages among emulated ranks.
Result<std::unique_ptr<JobState>> begin_job_again(JobState& former);

/// All jobs, as the configuration lists them, in `network` where they cross it, which may be null
/// where there is none; null for one without a real rank, which `network` carries message by
/// message. `workload` is the scenario's. `recorded`: as SharedNetwork::carry(). Errors: as of
/// begin_job(), SharedNetwork::carry() and model_by_packets().
Result<std::vector<std::unique_ptr<JobState>>> begin_jobs(const Scenario& scenario,
                                                          SharedNetwork* network,
                                                          WorkloadExecutor& workload,
                                                          bool recorded);

}  // namespace understudy
