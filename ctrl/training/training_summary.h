// What a training job amounts to by its shape alone: parameters, FLOPs, memory, messages, computing. No
// network: how long its messages take is not here.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/training/memory.h"
#include "collective_model/training/messages.h"
#include "ctrl/config/config.h"

namespace understudy {

/// Of a GPU of one pipeline stage.
struct StageSummary {
  uint32_t stage = 0;
  uint64_t parameters = 0;  ///< undivided by ZeRO
  StageMemory memory;
  std::vector<MessagePhase> messages;
  std::array<TrainingTraffic, std::size(kTrainingGroups)> traffic;  ///< by TrainingGroup
};

struct TrainingSummary {
  uint64_t parameters = 0;           ///< of the model
  uint64_t active = 0;               ///< that a token meets
  double flops = 0;                  ///< of an iteration, on all GPUs
  std::vector<StageSummary> stages;  ///< the first one, the fullest one, the last one: each once
  size_t fullest = 0;                ///< position in `stages`: the most memory
  std::optional<ComputeTime> time;   ///< where the configuration has a [gpu]
};

/// `training` comes from a configuration that was read. An error in words for times that are too long.
Result<TrainingSummary> summarize(const TrainingConfig& training);

/// `config` is what the summary was made of; it has a [model].
std::string training_text(const Config& config, const TrainingSummary& summary);
std::string training_json(const Config& config, const TrainingSummary& summary);

}  // namespace understudy
