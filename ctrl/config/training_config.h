// [model], [parallel], [gpu] and [operations]: a training job by the shape of its model.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "collective_model/training/compute_time.h"
#include "collective_model/training/operation_time.h"
#include "collective_model/training/parallel.h"
#include "ctrl/config/sender_config.h"
#include "dataplane/base/ids.h"

namespace understudy {

struct TrainingConfig {
  Transformer model;
  Parallel parallel;               ///< goes with the model: no misfits()
  std::optional<TrainingGpu> gpu;  ///< without: whether it fits and what it takes is not known
  /// In place of nodes and their network, for predict alone.
  std::optional<GivenOperations> operations;
  uint32_t iterations = 1;  ///< of a run
  SenderConfig sender;      ///< of every GPU's messages
  /// Nodes whose GPUs compute so many times as long as others.
  std::vector<std::pair<NodeId, double>> slow;
  unsigned line = 0;           ///< of [model]
  unsigned parallel_line = 0;  ///< of [parallel]; without one that of [model]
  unsigned gpu_line = 0;       ///< of [gpu]; the same
  unsigned operations_line = 0;
};

}  // namespace understudy
