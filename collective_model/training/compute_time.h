// How long GPUs compute in one iteration, without any message: a roofline per layer and pass, and the
// pipeline's order, in which stages wait for each other.
//
// A pass over a layer takes the longer of two times: its FLOPs at the GPU's rate times an efficiency,
// and the bytes it moves at the memory's rate. Bytes are the weights once and what the layer keeps for
// its backward once written or read, scores apart; on the way back both a second time for gradients.
#pragma once

#include "collective_model/training/parallel.h"
#include "collective_model/training/pipeline_time.h"

namespace understudy {

struct TrainingGpu {
  double flops = 0;             ///< a second at most, of 2-byte values in dense matrices
  uint64_t memory = 0;          ///< bytes
  double memory_bandwidth = 0;  ///< bytes a second
  double efficiency = 0.5;      ///< share of flops that matrices reach
};

/// Names of the GPUs below, in a fixed order.
std::vector<std::string_view> gpu_presets();
/// As the vendor's data sheets have them (A100 80GB SXM, H100 SXM); nothing if there is none.
std::optional<TrainingGpu> find_gpu(std::string_view name);

/// A pass of one micro-batch through one chunk of a stage.
struct ChunkSeconds {
  double forward = 0;
  double backward = 0;         ///< gradient of the input, and what is computed again
  double weight_gradient = 0;  ///< behind it
};
/// Of its layers.
ChunkSeconds layer_seconds(const Transformer& model, const Parallel& parallel,
                           const TrainingGpu& gpu);
/// Of these, and of the output layer where the chunk has it.
ChunkSeconds chunk_seconds(const Transformer& model, const Parallel& parallel,
                           const TrainingGpu& gpu, uint32_t stage, uint32_t chunk);

/// Adam's step on a GPU of this stage: bytes of gradients, moments and weights at the memory's rate.
double optimizer_seconds(const Transformer& model, const Parallel& parallel, const TrainingGpu& gpu,
                         uint32_t stage);

struct ComputeTime {
  Duration pipeline;   ///< from the first forward to the last backward
  Duration busiest;    ///< what the stage computes that has most to do
  Duration optimizer;  ///< of the slowest stage
  double bubble = 0;   ///< share of the pipeline's time in which the stages on average wait

  Duration all() const { return pipeline + optimizer; }
};
/// An error in words for times that do not fit into 64 bits.
Result<ComputeTime> compute_time(const Transformer& model, const Parallel& parallel,
                                 const TrainingGpu& gpu);

}  // namespace understudy
