// What an iteration came to: how long it took, and what stages did and waited for meanwhile.
//
// A replica of a stage computes, or waits. What it waits for is what came last: a message from another
// stage, as long as it was on its way, is exposed pipeline communication; before it was sent the stage
// that sends it had not computed it yet, which is the bubble. Gradients and weights of replicas, from when all
// replicas were there, are exposed data-parallel communication; tokens on their way to experts and back, and
// keys and values that come later than the scores before them are computed, exposed expert and context
// parallelism. Before that, and before the norm of all gradients, it waits for the slowest. Operations of tensor parallelism take their time within what is
// computed.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

/// Where the time of an iteration goes. All parts together are `all`.
struct IterationParts {
  Duration compute;  ///< of forward, backward and weight gradients, without tensor's
  Duration tensor;   ///< operations of tensor parallelism
  Duration optimizer;
  Duration bubble;    ///< waited for another stage that computed
  Duration pipeline;  ///< waited for a message between stages
  Duration data;      ///< waited for gradients or weights of replicas, or of the tied embedding
  Duration experts;   ///< waited for tokens of experts
  Duration context;   ///< waited for keys and values of other tokens, or their gradients
  Duration slowest;   ///< waited for others before the norm
  Duration all() const {
    return compute + tensor + optimizer + bubble + pipeline + data + experts + context + slowest;
  }
};

struct StageResult {
  IterationParts mean;   ///< of its replicas
  Duration longest;      ///< computed by one of its replicas, tensor's operations included
  uint32_t slowest = 0;  ///< that one
};

struct IterationResult {
  Time begin, end;
  IterationParts mean;  ///< of all stages and replicas
  std::vector<StageResult> stages;
  Duration took() const { return end - begin; }
};

/// A part of what an iteration's end waited for (critical_path.h).
struct CriticalStretch {
  enum class What : uint8_t {
    kCompute,
    kTensor,
    kPipeline,
    kData,
    kNorm,
    kOptimizer,
    kExperts,
    kContext
  };
  What what = What::kCompute;
  uint32_t stage = 0;
  uint32_t to = 0;       ///< kPipeline, and kData of the tied embedding: the other stage
  uint32_t replica = 0;  ///< kCompute, kTensor
  Duration length;
};

}  // namespace understudy
