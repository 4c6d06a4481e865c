// [model], [parallel] and [gpu]: a training job by the shape of its model.
#pragma once

#include <optional>

#include "collective_model/training/compute_time.h"
#include "collective_model/training/parallel.h"

namespace understudy {

struct TrainingConfig {
  Transformer model;
  Parallel parallel;               ///< goes with the model: no misfits()
  std::optional<TrainingGpu> gpu;  ///< without: whether it fits and what it takes is not known
  unsigned line = 0;               ///< of [model]
};

}  // namespace understudy
