// What operations take that follow each other, when nothing but the model delays them.
#pragma once

#include <vector>

#include "dataplane/node/collective_job.h"

namespace understudy {

/// Walks through a job's operations by plans all of whose ranks are emulated, which enter as the
/// job's would.
class ModelledTimes {
 public:
  explicit ModelledTimes(const CollectiveJob& job)
      : job_(job), free_(job.ranks(), job.start), entries_(job.ranks()), clocks_(job.ranks()) {}

  /// Of the next operation, whose plan is `ideal`: from the first real rank's entry until the last
  /// one has done its part. As long as one follows itself and ranks enter alike, it is worked out
  /// once.
  Duration next(Plan& ideal);

 private:
  const CollectiveJob& job_;
  size_t operation_ = 0;
  std::vector<Time> free_, entries_;
  std::vector<EntryClock> clocks_;
  const Plan* last_ = nullptr;
  Duration took_;
};

}  // namespace understudy
