// What operations take that became known during a run only, and that no configuration lists.
#pragma once

#include <string>

#include "ctrl/jobs/operations/operation_source.h"

namespace understudy {

struct FoundModel {
  Duration time;      ///< where nothing but the model delays it, and it follows no other one
  std::string doubt;  ///< why that is no better than an estimate, or empty
};

/// Of `kernel`, which was found in `job`: as of a job that lists it, so packet by packet where the
/// plan does not hold. `found` made it. Plans of many ranks take milliseconds to make, packets a
/// second or so. Errors: as of begin_job() and model_by_packets().
Result<FoundModel> model_of_found(const Config& config, const JobConfig& job,
                                  const OperationSource& found, const Kernel& kernel);

}  // namespace understudy
