// Buckets: gradients that one operation reduces. Frameworks fill them in the order in which gradients
// become ready, last parameters first (PyTorch's DistributedDataParallel, Megatron-LM's
// param_and_grad_buffer.py).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective_model/training/parallel.h"
#include "collective_model/training/pass_shares.h"

namespace understudy {

/// A tensor of parameters on one GPU.
struct TrainedTensor {
  uint64_t parameters = 0;
  /// Share of its chunk's backward that is over when its gradient is there; its forward begins at one
  /// less this.
  double ready = 1;
  bool experts = false;  ///< of experts: fewer replicas have it
};

struct GradientBucket {
  uint64_t parameters = 0;
  double ready = 1;  ///< of its last tensor
  bool experts = false;
};

/// A bucket is full when it has `first` values (of later ones `least`) or more, in any unit.
std::vector<GradientBucket> fill_buckets(std::span<const TrainedTensor> last_first, uint64_t first,
                                         uint64_t least);

/// Parameters of a full bucket: as told, or Megatron-LM's max(40,000,000, 1,000,000 dp).
uint64_t bucket_parameters(const Parallel& parallel);

/// Tensors of a chunk on one GPU in the order in which their gradients become ready. Layers take shares of
/// the chunk's backward as pass_shares() has them; `output_share` is that of the output layer.
std::vector<TrainedTensor> chunk_tensors(const Transformer& model, const Parallel& parallel,
                                         uint32_t stage, uint32_t chunk, double output_share);

/// What ZeRO's stage 3 gathers and reduces at a time: the ends that the chunk has, and each layer, apart from
/// its experts; in the order in which their gradients become ready.
std::vector<GradientBucket> chunk_units(const Transformer& model, const Parallel& parallel,
                                        uint32_t stage, uint32_t chunk, double output_share);

/// Of a chunk: one bucket of all where `parallel` neither overlaps nor names a size. Experts have buckets of their own.
std::vector<GradientBucket> chunk_buckets(const Transformer& model, const Parallel& parallel,
                                          uint32_t stage, uint32_t chunk, double output_share);

}  // namespace understudy
