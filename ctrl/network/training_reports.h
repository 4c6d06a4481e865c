// What became of a training job, for the report and for timelines.
#pragma once

#include <vector>

#include "ctrl/compile/training/training_job.h"
#include "ctrl/config/config.h"
#include "ctrl/report/timeline.h"
#include "ctrl/report/workload/training_report.h"

namespace understudy {

/// What the job is, and its iterations that are over.
TrainingReport training_report(const Config& config, const TrainingJob& job);

/// Tracks of every replica of every stage: what it computes, and each kind of its operations.
void add_training_timeline(std::vector<TimelineTrack>& tracks, const Config& config,
                           const TrainingJob& job);

}  // namespace understudy
