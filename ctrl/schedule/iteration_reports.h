// What a job's iterations came to, over all of its ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/iteration/iteration.h"
#include "ctrl/report/flow_report.h"
#include "ctrl/schedule/job_work.h"

namespace understudy {

class IterationReports {
 public:
  /// One rank's iterations, of the job's operations.
  void add(const std::vector<RankIteration>& iterations,
           const std::vector<JobOperation>& operations);
  /// Means of all ranks that were added; at least one was.
  std::vector<IterationReport> take();

 private:
  std::vector<IterationReport> sums_;
  int64_t ranks_ = 0;
};

}  // namespace understudy
