#include "ctrl/schedule/iteration_reports.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

void IterationReports::add(const std::vector<RankIteration>& iterations,
                           const std::vector<JobOperation>& operations) {
  sums_.resize(iterations.size());
  for (size_t i = 0; i < iterations.size(); ++i) {
    IterationReport& sum = sums_[i];
    const RankIteration& own = iterations[i];
    const JobOperation& first = operations[i * operations.size() / iterations.size()];
    sum.iteration = first.iteration;
    sum.warmup = first.warmup;
    sum.start = ranks_ == 0 ? own.begin : std::min(sum.start, own.begin);
    sum.mean += own.took();
    sum.longest = std::max(sum.longest, own.took());
    sum.compute += own.compute;
    sum.exposed += own.exposed_time();
    sum.exposed_operations =
        ranks_ == 0 ? own.exposed : std::min(sum.exposed_operations, own.exposed);
  }
  ++ranks_;
}

std::vector<IterationReport> IterationReports::take() {
  ASSERT_INVARIANT(sums_.empty() || ranks_ > 0);
  for (IterationReport& sum : sums_) {
    sum.mean = sum.mean / ranks_;
    sum.compute = sum.compute / ranks_;
    sum.exposed = sum.exposed / ranks_;
  }
  return std::exchange(sums_, {});
}

}  // namespace understudy
