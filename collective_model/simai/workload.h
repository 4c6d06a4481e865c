// A training job as SimAI has it: a list of layers, each with computing and a collective in three passes.
// AICB writes such lists as text; ctrl/simai reads them. Facts: aliyun/SimAI f5efb5a, Workload.cc, and
// aliyun/aicb 23eec3c, SimAI_training_workload_generator.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace understudy {

enum class SimaiCollective : uint8_t {
  kNone,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,  ///< of old lists; SimAI gives it no time
};

/// Whose collective it is. Without a suffix that of a weight gradient is kData, others are kTensor.
enum class SimaiGroup : uint8_t { kTensor, kData, kExpert, kExpertData };

struct SimaiPass {
  uint64_t compute_ns = 0;
  SimaiCollective collective = SimaiCollective::kNone;
  SimaiGroup group = SimaiGroup::kTensor;
  uint64_t bytes = 0;  ///< of the whole operation
};

struct SimaiLayer {
  std::string name;
  SimaiPass forward, input_gradient;
  SimaiPass weight_gradient{.compute_ns = 0, .group = SimaiGroup::kData};
};

/// Sizes of the groups; all at least 1.
struct SimaiParallel {
  uint32_t tp = 1, ep = 1, pp = 1;
  uint32_t vpp = 1;       ///< chunks of a pipeline stage; AICB writes a stage's layers
  uint32_t ga = 1;        ///< micro-batches of an iteration
  uint32_t gpus = 1;      ///< all
  uint32_t pp_bytes = 0;  ///< of a message between pipeline stages

  /// Rounded down, as SimAI does.
  uint32_t dp() const { return static_cast<uint32_t>(gpus / (uint64_t{tp} * pp)); }
};

struct SimaiWorkload {
  SimaiParallel parallel;
  std::vector<SimaiLayer> layers;  ///< in order of the forward pass
};

}  // namespace understudy
