// How long a pipeline (pipeline.h) takes: a stage does its steps one after another, each as soon as
// the step before it is done and what it takes from another stage is there. A message is on its way
// for a given time and takes none of either stage: sends and receives run beside the computing,
// and any number at once. Gradient all-reduces and the optimizer come after it and are not here.
#pragma once

#include <vector>

#include "collective_model/training/pipeline.h"
#include "dataplane/base/units.h"

namespace understudy {

/// Of one chunk of one stage, for one micro-batch.
struct ChunkTimes {
  Duration forward;
  Duration backward;  ///< the gradient of its input; all, where the next one is 0
  /// The gradient of its weights: a step of its own in kZeroBubbleH1; in other schedules the
  /// backward takes so much longer.
  Duration weight_gradient = {};
};

struct PipelineTimes {
  std::vector<ChunkTimes> chunks;  ///< chunk c of stage s is at s * chunks + c; or one for all
  /// How long a message takes from the stage to the next one, and back; the last stage's next one
  /// is the first. Or one for all, or empty: no time. A stage sends itself no message.
  std::vector<Duration> messages = {};
};

struct TimedStep {
  PipelineStep step;
  Time start, end;
};

struct StageTimeline {
  std::vector<TimedStep> steps;  ///< in order
  Duration busy;                 ///< all that it computes; the rest of the makespan is its bubble
  HeldActivations held;
};

struct PipelineTimeline {
  std::vector<StageTimeline> stages;
  Duration makespan;  ///< from time zero, when all stages could begin, to the last end
};

/// Times of all steps; linear in their number. An error in words for a pipeline that does not fit,
/// times that are negative or not as many as said above, and times that might together exceed 64
/// bits.
Result<PipelineTimeline> time_pipeline(const Pipeline& pipeline, const PipelineTimes& times);

}  // namespace understudy
