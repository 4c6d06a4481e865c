// What a GPU holds while it trains, by kind. Weights and their gradients: arXiv 1910.02054 (ZeRO), of
// 2-byte weights with Adam. Activations: arXiv 2205.05198, section 4, term by term, so that groups of
// keys, gated networks and models without dropout count as well.
#pragma once

#include "collective_model/training/parallel.h"

namespace understudy {

/// Bytes of an activation and of a weight.
inline constexpr double kTrainedValueBytes = 2;

/// Bytes, exact up to 2^53.
struct StageMemory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;    ///< of Adam: fp32 weights and two moments, 12 bytes a parameter
  double activations = 0;  ///< of the layers, at the moment when most are held
  double ends = 0;         ///< activations of the embedding, the last norm and the logits
  /// What exists for a moment: of a layer that is computed again, what it keeps meanwhile; with ZeRO's
  /// stage 3 the whole weights of a layer and of the next one, which is fetched.
  double working = 0;

  double all() const { return weights + gradients + optimizer + activations + ends + working; }
};

/// Weights, gradients and optimizer of so many parameters on a GPU, divided over `replicas` from the ZeRO
/// stage on that says so: the optimizer 1, gradients 2, weights 3.
StageMemory state_memory(double parameters, const Parallel& parallel, uint32_t replicas);
/// Of parameters that all replicas have.
StageMemory state_memory(double parameters, const Parallel& parallel);

/// Bytes of one layer's values on one GPU, of one micro-batch: what it would keep for its backward if nothing
/// were computed again. A fused kernel has no scores.
struct LayerValues {
  double linear = 0;  ///< all but the scores
  double scores = 0;
};
LayerValues layer_values(const Transformer& model, const Parallel& parallel,
                         LayerKind kind = LayerKind::kDense);

/// Kept by one layer for the backward of one micro-batch, on one GPU.
double layer_activations(const Transformer& model, const Parallel& parallel,
                         LayerKind kind = LayerKind::kDense);

/// Keys and values of one layer and micro-batch on one GPU, which ranks of context parallelism pass on.
double key_bytes(const Transformer& model, const Parallel& parallel);

/// The peak on a GPU of this stage. With the backward in two steps what it keeps is counted until the
/// weights' gradient is done.
StageMemory stage_memory(const Transformer& model, const Parallel& parallel, uint32_t stage);

}  // namespace understudy
