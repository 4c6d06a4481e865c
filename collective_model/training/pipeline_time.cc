#include "collective_model/training/pipeline_time.h"

#include <algorithm>
#include <limits>
#include <string>

#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Kind = PipelineStep::Kind;

const ChunkTimes& times_of(const Pipeline& pipeline, const PipelineTimes& times, uint32_t stage,
                           uint32_t chunk) {
  if (times.chunks.size() == 1) return times.chunks.front();
  return times.chunks[size_t{stage} * pipeline.chunks + chunk];
}

/// From the stage to the next one, and back.
Duration message_of(const PipelineTimes& times, uint32_t stage) {
  if (times.messages.empty()) return Duration();
  return times.messages.size() == 1 ? times.messages.front() : times.messages[stage];
}

bool fits_count(size_t count, uint64_t needed) { return count == 1 || count == needed; }

Result<void> check_times(const Pipeline& pipeline, const PipelineTimes& times) {
  const uint64_t pieces = uint64_t{pipeline.stages} * pipeline.chunks;
  if (!fits_count(times.chunks.size(), pieces)) {
    return fail("a pipeline of " + std::to_string(pieces) +
                " chunks needs as many compute times, or one for all, not " +
                std::to_string(times.chunks.size()));
  }
  if (!times.messages.empty() && !fits_count(times.messages.size(), pipeline.stages)) {
    return fail("a pipeline of " + std::to_string(pipeline.stages) +
                " stages needs as many message times, or one for all, or none, not " +
                std::to_string(times.messages.size()));
  }
  // No step ends later than if all steps and messages followed each other.
  unsigned __int128 all = 0;
  const auto add = [&](Duration time, uint64_t often) {
    all += static_cast<unsigned __int128>(time.ps()) * often * pipeline.micro_batches;
    return time >= Duration();
  };
  const uint64_t chunks_alike = times.chunks.size() == 1 ? pieces : 1;
  for (const ChunkTimes& chunk : times.chunks) {
    if (!add(chunk.forward, chunks_alike) || !add(chunk.backward, chunks_alike) ||
        !add(chunk.weight_gradient, chunks_alike)) {
      return fail("a compute time of a pipeline is negative; use 0 or more");
    }
  }
  const uint64_t messages_alike = times.messages.size() == 1 ? pieces : pipeline.chunks;
  for (const Duration message : times.messages) {
    if (!add(message, 2 * messages_alike)) {
      return fail("a message time of a pipeline is negative; use 0 or more");
    }
  }
  if (all >= static_cast<unsigned __int128>(Time::never().ps())) {
    return fail(
        "the steps and messages of a pipeline take more than 106 days together; use shorter times "
        "or fewer micro-batches");
  }
  return {};
}

/// Takes stages in turn: each does steps until what one takes is not there yet, and goes on once a
/// neighbour has done that. So every step is looked at twice at most.
class Simulation {
 public:
  Simulation(const Pipeline& pipeline, const PipelineTimes& times)
      : pipeline_(pipeline),
        times_(times),
        ends_(size_t{2} * pipeline.stages * pipeline.chunks * pipeline.micro_batches,
              Time::never()),
        done_(pipeline.stages),
        waits_for_(pipeline.stages, kNothing) {
    line_.stages.resize(pipeline.stages);
    for (uint32_t stage = 0; stage < pipeline.stages; ++stage) {
      const std::vector<PipelineStep> steps = pipeline_steps(pipeline, stage);
      StageTimeline& line = line_.stages[stage];
      line.held = held_activations(steps);
      line.steps.reserve(steps.size());
      for (const PipelineStep& step : steps) line.steps.push_back({step, {}, {}});
    }
  }

  PipelineTimeline run() {
    for (uint32_t stage = 0; stage < pipeline_.stages; ++stage) ready_.push_back(stage);
    while (!ready_.empty()) {
      const uint32_t stage = ready_.back();
      ready_.pop_back();
      advance(stage);
    }
    for (uint32_t stage = 0; stage < pipeline_.stages; ++stage) {
      const StageTimeline& line = line_.stages[stage];
      // Orders that wait for each other in a cycle would be a bug of pipeline_steps().
      ASSERT_INVARIANT(done_[stage] == line.steps.size());
      line_.makespan = std::max(line_.makespan, line.steps.back().end - Time::zero());
    }
    return std::move(line_);
  }

 private:
  static constexpr size_t kNothing = ~size_t{0};

  /// Of a forward or backward.
  size_t number(const StageStep& of) const {
    const size_t piece = size_t{of.stage} * pipeline_.chunks + of.step.chunk;
    return (2 * piece + (of.step.kind == Kind::kForward ? 0 : 1)) * pipeline_.micro_batches +
           of.step.micro_batch;
  }

  Duration length(const StageStep& of) const {
    const ChunkTimes& times = times_of(pipeline_, times_, of.stage, of.step.chunk);
    switch (of.step.kind) {
      case Kind::kForward:
        return times.forward;
      case Kind::kBackward:
        return pipeline_.schedule == PipelineSchedule::kZeroBubbleH1
                   ? times.backward
                   : times.backward + times.weight_gradient;
      case Kind::kWeightGradient:
        return times.weight_gradient;
    }
    return Duration();
  }

  /// How long what the step takes is on its way to it.
  Duration message(const StageStep& to, const StageStep& from) const {
    if (to.stage == from.stage) return Duration();
    // Forwards come from the stage before, backwards from the one behind.
    return message_of(times_, to.step.kind == Kind::kForward ? from.stage : to.stage);
  }

  void advance(uint32_t stage) {
    StageTimeline& line = line_.stages[stage];
    for (size_t& done = done_[stage]; done < line.steps.size(); ++done) {
      TimedStep& timed = line.steps[done];
      const StageStep step{stage, timed.step};
      if (done > 0) timed.start = line.steps[done - 1].end;
      if (const auto input = pipeline_input(pipeline_, step)) {
        const size_t awaited = number(*input);
        if (ends_[awaited].is_never()) {
          waits_for_[stage] = awaited;
          return;
        }
        timed.start = std::max(timed.start, ends_[awaited] + message(step, *input));
      }
      timed.end = timed.start + length(step);
      line.busy += length(step);
      if (timed.step.kind != Kind::kWeightGradient) end(step, timed.end);
    }
  }

  void end(const StageStep& step, Time at) {
    const size_t done = number(step);
    ends_[done] = at;
    const uint32_t stages = pipeline_.stages;
    const uint32_t before = (step.stage + stages - 1) % stages, behind = (step.stage + 1) % stages;
    for (const uint32_t neighbour : {before, behind}) {
      if (waits_for_[neighbour] != done) continue;
      waits_for_[neighbour] = kNothing;
      ready_.push_back(neighbour);
    }
  }

  const Pipeline& pipeline_;
  const PipelineTimes& times_;
  PipelineTimeline line_;
  std::vector<Time> ends_;         ///< by number of the step; never: not done yet
  std::vector<size_t> done_;       ///< by stage: how many of its steps
  std::vector<size_t> waits_for_;  ///< by stage: number of the step
  std::vector<uint32_t> ready_;    ///< stages that may go on
};

}  // namespace

Result<PipelineTimeline> time_pipeline(const Pipeline& pipeline, const PipelineTimes& times) {
  TRY(check_pipeline(pipeline));
  TRY(check_times(pipeline, times));
  return Simulation(pipeline, times).run();
}

}  // namespace understudy
