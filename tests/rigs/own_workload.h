// The workload of one job alone, where no run composes one.
#pragma once

#include "collective_model/workload/executor.h"
#include "ctrl/compile/job_workload.h"
#include "ctrl/jobs/job_state.h"

namespace understudy {

class OwnWorkload {
 public:
  /// `state` is the job's; this outlives its ranks.
  OwnWorkload(const Config& config, const JobConfig& job, JobState& state)
      : workload_(job_workload(config, job)), executor_(workload_) {
    state.ranks.workload = &executor_;
    state.ranks.group = 0;
  }
  OwnWorkload(const OwnWorkload&) = delete;
  OwnWorkload& operator=(const OwnWorkload&) = delete;

 private:
  const Workload workload_;
  WorkloadExecutor executor_;
};

}  // namespace understudy
