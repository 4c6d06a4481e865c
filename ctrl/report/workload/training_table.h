// The iterations of a training job, for a person.
#pragma once

#include <string>

#include "ctrl/report/workload/training_report.h"

namespace understudy {

/// Each iteration, and where the time of the last one went, stage by stage.
std::string training_table(const TrainingReport& training);

}  // namespace understudy
