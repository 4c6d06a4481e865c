// Pipeline-parallel training: which micro-batch a stage works on when.
//
// A model is cut into stages, each on its own devices, and a batch into micro-batches. A
// micro-batch goes forward through all stages and then backward through them. With several chunks
// every stage holds as many pieces of the model: piece number chunk * stages + stage, so that a
// micro-batch comes to each stage once per chunk, and goes from the last stage to the first between
// chunks.
//
// A schedule is the order in which a stage takes its steps. The stage does one after another and
// waits in each for what the step takes from another stage (pipeline_input()). What is here is the
// order only; pipeline_time.h has the times.
//
//   kGpipe         all forwards, then all backwards (GPipe, arXiv 1811.06965)
//   k1f1b          stages - 1 - stage forwards, then forward and backward by turns, then what is
//                  left of the backwards (arXiv 2104.04473, section 2.2.1)
//   kInterleaved   the same with several chunks (section 2.2.2): groups of `stages` micro-batches,
//                  in each chunk by chunk; 2 * (stages - 1 - stage) + (chunks - 1) * stages
//                  forwards come first, as in Megatron-LM
//   kZeroBubbleH1  1F1B with the backward cut in two: the input's gradient, which another stage
//                  waits for, and the weights' gradient, which is done `stage` micro-batches later
//                  (ZB-H1, arXiv 2401.10241)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective_model/nccl/operation.h"
#include "dataplane/base/result.h"

namespace understudy {

enum class PipelineSchedule : uint8_t { kGpipe, k1f1b, kInterleaved, kZeroBubbleH1 };

inline constexpr Named<PipelineSchedule> kPipelineScheduleNames[] = {
    {"gpipe", PipelineSchedule::kGpipe},
    {"1f1b", PipelineSchedule::k1f1b},
    {"interleaved", PipelineSchedule::kInterleaved},
    {"zb-h1", PipelineSchedule::kZeroBubbleH1},
};

struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::k1f1b;
  uint32_t stages = 1;
  uint32_t micro_batches = 1;
  uint32_t chunks = 1;  ///< of each stage
};

/// Of all stages together: a timeline of so many takes about 1.4 GB.
inline constexpr uint64_t kMostPipelineSteps = uint64_t{1} << 25;

/// Whether the numbers fit; the error says what to change. All are at least 1. kInterleaved needs 2
/// or more chunks, and micro-batches in a multiple of the stages; the other schedules have one
/// chunk. All stages together have at most kMostPipelineSteps steps.
Result<void> check_pipeline(const Pipeline& pipeline);

struct PipelineStep {
  enum class Kind : uint8_t {
    kForward,
    kBackward,        ///< kZeroBubbleH1: the gradient of the chunk's input only
    kWeightGradient,  ///< kZeroBubbleH1 only
  };
  Kind kind = Kind::kForward;
  uint32_t micro_batch = 0;
  uint32_t chunk = 0;

  bool operator==(const PipelineStep&) const = default;
};

/// What a stage does, in order: every micro-batch once per chunk and kind. `pipeline` fits.
std::vector<PipelineStep> pipeline_steps(const Pipeline& pipeline, uint32_t stage);

/// A step of a stage.
struct StageStep {
  uint32_t stage = 0;
  PipelineStep step;
};
/// The step whose result the step takes: of the chunk of the model before it, or behind it on the
/// way back. It is of the same stage where there is one stage, for the backward of the last chunk
/// of all and for a weight gradient. Nothing for the first forward of a micro-batch.
std::optional<StageStep> pipeline_input(const Pipeline& pipeline, const StageStep& of);

/// The most activations that a stage holds at once, each of one micro-batch and chunk, from the
/// begin of its forward.
struct HeldActivations {
  uint32_t until_backward = 0;  ///< to the end of its backward
  /// To the end of its weight gradient, which needs the inputs of its layers; the same where the
  /// backward is one step.
  uint32_t until_weight_gradient = 0;
};
/// `steps` are those of one stage.
HeldActivations held_activations(std::span<const PipelineStep> steps);

}  // namespace understudy
