#include "ctrl/training/training_summary.h"

namespace understudy {
namespace {

StageSummary of_stage(const TrainingConfig& training, uint32_t stage, const StageMemory& memory) {
  const Transformer& model = training.model;
  const Parallel& parallel = training.parallel;
  StageSummary summary{.stage = stage,
                       .parameters = rank_parameters(model, parallel, stage),
                       .memory = memory,
                       .messages = stage_messages(model, parallel, stage),
                       .traffic = {}};
  for (const TrainingGroup group : kTrainingGroups) {
    summary.traffic[static_cast<size_t>(group)] = traffic_of(summary.messages, parallel, group);
  }
  return summary;
}

}  // namespace

Result<TrainingSummary> summarize(const TrainingConfig& training) {
  const Transformer& model = training.model;
  const Parallel& parallel = training.parallel;
  TrainingSummary summary{
      .parameters = model_parameters(model),
      .active = active_parameters(model),
      .flops = iteration_flops(model, parallel.recompute, parallel.global_batch),
      .stages = {},
      .time = {}};
  std::vector<StageMemory> memory;
  uint32_t fullest = 0;
  for (uint32_t stage = 0; stage < parallel.pp; ++stage) {
    memory.push_back(stage_memory(model, parallel, stage));
    if (memory[stage].all() > memory[fullest].all()) fullest = stage;
  }
  for (const uint32_t stage : {uint32_t{0}, fullest, parallel.pp - 1}) {
    if (!summary.stages.empty() && summary.stages.back().stage == stage) continue;
    if (stage == fullest) summary.fullest = summary.stages.size();
    summary.stages.push_back(of_stage(training, stage, memory[stage]));
  }
  if (!training.gpu) return summary;
  auto time = compute_time(model, parallel, *training.gpu);
  if (!time) return tl::unexpected(time.error());
  summary.time = *time;
  return summary;
}

}  // namespace understudy
