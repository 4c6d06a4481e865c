#include "collective_model/training/pipeline.h"

#include <algorithm>
#include <string>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

using Kind = PipelineStep::Kind;

/// At least; exactly, if they are no more than kMostPipelineSteps.
uint64_t steps_of_all(const Pipeline& pipeline) {
  const uint64_t kinds = pipeline.schedule == PipelineSchedule::kZeroBubbleH1 ? 3 : 2;
  const uint64_t passes = uint64_t{pipeline.micro_batches} * pipeline.stages;
  // Three numbers of 32 bits might not fit into 64.
  return passes > kMostPipelineSteps ? passes : passes * pipeline.chunks * kinds;
}

/// The order in which forwards, and with chunks counted from behind backwards, follow each other:
/// groups of as many micro-batches as there are stages, in each chunk by chunk.
PipelineStep numbered(const Pipeline& pipeline, Kind kind, uint32_t number) {
  const uint32_t group = pipeline.stages * pipeline.chunks;
  const uint32_t chunk = number % group / pipeline.stages;
  return {kind, number / group * pipeline.stages + number % pipeline.stages,
          kind == Kind::kForward ? chunk : pipeline.chunks - 1 - chunk};
}

/// Forwards before the first backward, besides the one that is right before it.
uint32_t warm_up(const Pipeline& pipeline, uint32_t stage) {
  const uint32_t all = pipeline.micro_batches * pipeline.chunks;
  const uint32_t behind = pipeline.stages - 1 - stage;
  switch (pipeline.schedule) {
    case PipelineSchedule::kGpipe:
      return all;
    case PipelineSchedule::k1f1b:
    case PipelineSchedule::kZeroBubbleH1:
      return std::min(behind, all);
    case PipelineSchedule::kInterleaved:
      return std::min(2 * behind + (pipeline.chunks - 1) * pipeline.stages, all);
  }
  return all;
}

}  // namespace

Result<void> check_pipeline(const Pipeline& pipeline) {
  const auto [schedule, stages, micro_batches, chunks] = pipeline;
  if (stages == 0) return fail("a pipeline needs at least 1 stage");
  if (micro_batches == 0) return fail("a pipeline needs at least 1 micro-batch");
  if (chunks == 0) return fail("a stage needs at least 1 chunk");
  if (schedule != PipelineSchedule::kInterleaved && chunks > 1) {
    return fail("the schedule " + std::string(name_of(kPipelineScheduleNames, schedule)) +
                " has 1 chunk per stage, not " + std::to_string(chunks) +
                "; use interleaved for more");
  }
  if (schedule == PipelineSchedule::kInterleaved && chunks == 1) {
    return fail("the schedule interleaved needs 2 or more chunks per stage; with 1 use 1f1b");
  }
  const uint32_t over = micro_batches % stages;
  if (schedule == PipelineSchedule::kInterleaved && over > 0) {
    const uint64_t less = micro_batches - over;
    return fail("the schedule interleaved needs micro-batches in a multiple of its " +
                std::to_string(stages) + " stages, not " + std::to_string(micro_batches) +
                "; use " + (less == 0 ? "" : std::to_string(less) + " or ") +
                std::to_string(less + stages));
  }
  if (steps_of_all(pipeline) > kMostPipelineSteps) {
    return fail("the stages together would have more than " + std::to_string(kMostPipelineSteps) +
                " steps; use fewer micro-batches, chunks or stages");
  }
  return {};
}

std::vector<PipelineStep> pipeline_steps(const Pipeline& pipeline, uint32_t stage) {
  ASSERT_INVARIANT(check_pipeline(pipeline).has_value() && stage < pipeline.stages);
  const uint32_t all = pipeline.micro_batches * pipeline.chunks;
  const bool cut = pipeline.schedule == PipelineSchedule::kZeroBubbleH1;
  std::vector<PipelineStep> steps;
  steps.reserve(size_t{all} * (cut ? 3 : 2));
  uint32_t forwards = 0, weights = 0;
  const auto forward = [&] { steps.push_back(numbered(pipeline, Kind::kForward, forwards++)); };
  const auto weight = [&] { steps.push_back({Kind::kWeightGradient, weights++, 0}); };
  const uint32_t first = warm_up(pipeline, stage);
  while (forwards < first) forward();
  for (uint32_t backward = 0; backward < all; ++backward) {
    if (forwards < all) forward();
    steps.push_back(numbered(pipeline, Kind::kBackward, backward));
    // After the stage's last backward come those of the `stage` stages before it, one after
    // another: with as many weight gradients left over it has work until they are done.
    if (cut && backward >= stage) weight();
  }
  while (cut && weights < all) weight();
  return steps;
}

std::optional<StageStep> pipeline_input(const Pipeline& pipeline, const StageStep& of) {
  const auto [kind, micro_batch, chunk] = of.step;
  switch (kind) {
    case Kind::kForward:
      if (of.stage > 0) return StageStep{of.stage - 1, of.step};
      if (chunk == 0) return std::nullopt;
      return StageStep{pipeline.stages - 1, {kind, micro_batch, chunk - 1}};
    case Kind::kBackward:
      if (of.stage + 1 < pipeline.stages) return StageStep{of.stage + 1, of.step};
      if (chunk + 1 < pipeline.chunks) return StageStep{0, {kind, micro_batch, chunk + 1}};
      return StageStep{of.stage, {Kind::kForward, micro_batch, chunk}};
    case Kind::kWeightGradient:
      return StageStep{of.stage, {Kind::kBackward, micro_batch, chunk}};
  }
  return std::nullopt;
}

HeldActivations held_activations(std::span<const PipelineStep> steps) {
  HeldActivations most;
  uint32_t forwards = 0, backwards = 0, weights = 0;
  const bool cut = std::any_of(steps.begin(), steps.end(), [](const PipelineStep& step) {
    return step.kind == Kind::kWeightGradient;
  });
  for (const PipelineStep& step : steps) {
    if (step.kind == Kind::kForward) ++forwards;
    if (step.kind == Kind::kBackward) ++backwards;
    if (step.kind == Kind::kWeightGradient) ++weights;
    most.until_backward = std::max(most.until_backward, forwards - backwards);
    most.until_weight_gradient =
        std::max(most.until_weight_gradient, forwards - (cut ? weights : backwards));
  }
  return most;
}

}  // namespace understudy
