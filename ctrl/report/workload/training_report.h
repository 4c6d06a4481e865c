// What the iterations of a training job came to, as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective_model/training/iteration_parts.h"

namespace understudy {

struct TrainingReport {
  std::string
      source;  ///< how operations between nodes were carried out: "packet", "flow", "closed form", "given"
  uint64_t gpus = 0, nodes = 0;
  uint32_t tp = 1, pp = 1, dp = 1, ep = 1, cp = 1;
  uint64_t micro_batches = 1;
  double flops = 0;          ///< of an iteration, on all GPUs
  double peak_flops = 0;     ///< a second, of all GPUs
  uint64_t tokens = 0;       ///< of an iteration
  uint32_t connections = 0;  ///< over the network
  std::vector<IterationResult> iterations;
  /// Of the last iteration: what its end waited for; names of the nodes of kCompute and kTensor.
  std::vector<CriticalStretch> critical;
  std::vector<std::string> critical_nodes;  ///< beside it; empty texts where there are no nodes
};

}  // namespace understudy
