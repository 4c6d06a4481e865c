// How long GPUs compute in one iteration, without any message: a roofline per layer and pass, and the
// pipeline's order, in which stages wait for each other.
//
// A pass over a layer is its matrices, and behind them what is computed value by value: norms, masks,
// activation functions, scores. Matrices take the longer of two times: FLOPs at the GPU's rate times an
// efficiency, and bytes at the memory's rate: the weights once and what the layer keeps for its backward
// once written or read; on the way back both a second time for gradients. Values take bytes at the memory's
// rate times another efficiency: what the layer keeps, written and read once forward and twice that on the
// way back. That these times add up is what published iterations on A100 say (docs/results/workloads.md).
#pragma once

#include <optional>

#include "collective_model/training/parallel.h"
#include "collective_model/training/pipeline_time.h"

namespace understudy {

/// What was measured, in place of the roofline: seconds of one micro-batch on one GPU, its rank's share,
/// without operations of tensor parallelism.
struct GivenTimes {
  double forward = 0;
  double backward = 0;         ///< all of the way back, what is computed again included
  double weight_gradient = 0;  ///< of that, where it can wait

  bool operator==(const GivenTimes&) const = default;
};

struct TrainingGpu {
  double flops = 0;             ///< a second at most, of 2-byte values in dense matrices
  uint64_t memory = 0;          ///< bytes
  double memory_bandwidth = 0;  ///< bytes a second
  /// Share of flops that matrices reach. The default is the median of ten published iterations on A100
  /// (docs/results/workloads.md).
  double efficiency = 0.67;
  double memory_efficiency =
      0.8;  ///< share of memory_bandwidth, where values are computed one by one
  std::optional<GivenTimes> layer = {};   ///< of one layer
  std::optional<GivenTimes> output = {};  ///< of the output layer and the loss
  /// Seconds of the optimizer's step on a GPU, over one layer's parameters as they are divided.
  std::optional<double> layer_optimizer = {};
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
                           const TrainingGpu& gpu, uint32_t stage, uint32_t chunk);
/// Of these, and of the output layer where the chunk has it.
ChunkSeconds chunk_seconds(const Transformer& model, const Parallel& parallel,
                           const TrainingGpu& gpu, uint32_t stage, uint32_t chunk);

/// Adam's step on a GPU of this stage: bytes of gradients, moments and weights at the memory's rate; of layers
/// what is given.
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
