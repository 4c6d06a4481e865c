// Iterations of a training job as a workload: what each stage computes, and which operations it takes
// part in, in Megatron-LM's order.
//
// A group of the workload is a pipeline stage, and a rank of it a replica: the GPUs of one stage and
// replica, which tensor parallelism keeps in step, are one. Its operations within such GPUs are part of
// what is computed. A stage computes its steps (pipeline.h) one after another. Messages between
// stages, and gradients of buckets, are operations beside that.
//
// Of an iteration: with ZeRO's stages 1 and 2 weights are gathered; the pipeline; each chunk's gradients,
// bucket by bucket, from its last backward on, or with stage 2 from each one on; gradients of an embedding
// that is tied between the first and the last stage; the norm of the gradients, for which all stages wait
// for each other; the optimizer.
//
// With ZeRO's stage 3 weights are gathered layer by layer before each pass over them, the next one while
// one is computed, and gradients are reduced behind each backward of a layer (PyTorch's fully_shard).
#pragma once

#include <vector>

#include "collective_model/training/buckets.h"
#include "collective_model/training/messages.h"
#include "collective_model/training/pipeline_time.h"
#include "collective_model/workload/communicators.h"

namespace understudy {

/// What a replica computes.
struct StageComputing {
  std::vector<ChunkTimes> chunks;  ///< without operations of tensor parallelism
  std::vector<ChunkTimes> tensor;  ///< of these, which take the GPUs' time: behind the computing
  double output_share = 0;         ///< of the last chunk's backward, that of the output layer
  Duration optimizer;
};

struct IterationTimes {
  std::vector<StageComputing> stages;
  /// By stage and replica: how much longer it computes than others; empty: as long.
  std::vector<std::vector<double>> slower = {};
};

/// One operation of a family.
struct FamilyOperation {
  TrainingTransfer transfer = TrainingTransfer::kAllReduce;  ///< of a message: kSend
  uint64_t bytes = 0;  ///< as TrainingMessage::bytes, of each communicator

  bool operator==(const FamilyOperation&) const = default;
};

/// Communicators that carry out the same operations.
struct TrainingFamily {
  enum class Kind : uint8_t {
    kData,        ///< replicas of a stage; one communicator for each rank of tensor parallelism
    kExpertData,  ///< of these those that have the same experts, all `ep` apart
    kExperts,     ///< of these those that have all experts together: tokens go from each to each
    kContext,     ///< of these those that have a sequence together: a ring
    kMessages,    ///< from a stage to another one; the same of each pair of replicas
    kEnds,        ///< the tied embedding: pairs, too
    kNorm,        ///< everybody
  };
  Kind kind = Kind::kData;
  uint32_t stage = 0, to = 0;  ///< kMessages, kEnds: from which to which
  uint32_t members = 1;        ///< of each communicator
  uint32_t stride = 1;         ///< replicas of a stage: from one member to the next
  std::vector<FamilyOperation> operations = {};

  bool of_replicas() const { return kind <= Kind::kContext; }
  bool pairs() const { return kind == Kind::kMessages || kind == Kind::kEnds; }
  /// of_replicas(): who is member `member` of the stage's part `part`, as CommunicatorFamily::rank_of().
  uint32_t replica(uint32_t part, uint32_t member) const {
    return part % stride + part / stride * stride * members + member * stride;
  }
};

/// What a node of the workload is.
struct NodeMark {
  enum class Kind : uint8_t {
    kStart,
    kForward,
    kBackward,
    kWeightGradient,
    kOptimizer,
    kOperation
  };
  Kind kind = Kind::kStart;
  uint32_t iteration = 0;
  uint32_t micro_batch = 0, chunk = 0;
  /// Of its time the share that tensor parallelism's operations take, on a GPU that is not slower.
  Duration tensor = {};
};

struct IterationGraph {
  Workload workload;
  std::vector<TrainingFamily> families;
  /// The same as the workload's communicators take them; whoever carries them out numbers them.
  std::vector<CommunicatorFamily> communicators;
  std::vector<NodeMark> marks;  ///< by node
  /// By node of the workload: those that it waits for.
  std::vector<std::vector<uint32_t>> waits;
  std::vector<std::vector<uint32_t>> ends;  ///< by iteration and stage: the node that ends it
};

/// `times` has as many stages and chunks as `parallel`.
IterationGraph iteration_graph(const Transformer& model, const Parallel& parallel,
                               const IterationTimes& times, uint32_t iterations);

}  // namespace understudy
