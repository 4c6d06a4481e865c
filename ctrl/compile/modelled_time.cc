#include "ctrl/compile/modelled_time.h"

#include <algorithm>

#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Walks through a job's operations by plans all of whose ranks are emulated, which enter as the
/// job's would.
class ModelledTimes {
 public:
  explicit ModelledTimes(const CollectiveJob& job)
      : job_(job), free_(job.ranks()), entries_(job.ranks()), clocks_(job.ranks()) {}

  /// Of the next operation, whose plan is `ideal`. As long as one follows itself and ranks enter
  /// alike, it is worked out once.
  Duration next(Plan& ideal);

 private:
  const CollectiveJob& job_;
  size_t operation_ = 0;
  std::vector<Time> free_, entries_;
  std::vector<EntryClock> clocks_;
  const Plan* last_ = nullptr;
  Duration took_;
};

Duration ModelledTimes::next(Plan& ideal) {
  ASSERT_INVARIANT(!job_.real.empty() && entries_.size() == free_.size());
  std::vector<Time> entries(free_.size());
  Time real = Time::never(), end;
  for (uint32_t rank = 0; rank < free_.size(); ++rank) {
    entries[rank] = clocks_[rank].enter(job_.step(rank, operation_), free_[rank]);
  }
  for (const uint32_t rank : job_.real) real = std::min(real, entries[rank]);
  ++operation_;
  const Duration later = entries[0] - entries_[0];
  bool same = last_ == &ideal;
  for (uint32_t rank = 0; rank < free_.size() && same; ++rank) {
    same = entries[rank] - entries_[rank] == later;
  }
  entries_ = entries;
  last_ = &ideal;
  if (same) {
    for (Time& free : free_) free = free + later;
    return took_;
  }
  ideal.begin();
  for (uint32_t rank = 0; rank < free_.size(); ++rank) ideal.enter(rank, entries[rank]);
  ASSERT_INVARIANT(ideal.finished());  // no rank waits for anybody outside the plan
  for (uint32_t rank = 0; rank < free_.size(); ++rank) free_[rank] = ideal.completion(rank);
  for (const uint32_t rank : job_.real) end = std::max(end, free_[rank]);
  took_ = end - real;
  return took_;
}

}  // namespace

Result<std::vector<Duration>> modelled_times(const CollectiveSetup& setup) {
  return modelled_times(setup, setup.inputs);
}

Result<std::vector<Duration>> modelled_times(const CollectiveSetup& setup,
                                             const std::vector<PlanInput>& inputs) {
  std::vector<std::unique_ptr<Plan>> ideals;
  ideals.reserve(inputs.size());
  for (const PlanInput& input : inputs) ideals.push_back(TRY(make_uncongested_plan(input)));
  ModelledTimes times(setup.job);
  std::vector<Duration> modelled;
  for (const JobOperation& operation : setup.operations) {
    modelled.push_back(times.next(*ideals[operation.size]));
  }
  return modelled;
}

Result<Duration> modelled_time(const CollectiveJob& job, const PlanInput& input) {
  const auto ideal = TRY(make_uncongested_plan(input));
  return ModelledTimes(job).next(*ideal);
}

}  // namespace understudy
