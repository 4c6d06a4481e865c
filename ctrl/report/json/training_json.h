// The iterations of a training job as JSON.
#pragma once

#include "ctrl/report/json/parts.h"

namespace understudy {

report_parts::Json training_report_json(const TrainingReport& training);

}  // namespace understudy
