// Where the layers of a chunk, and their parts, lie in the chunk's passes: shares of the pass's computing, by
// FLOPs of matrices and scores.
#pragma once

#include <vector>

#include "collective_model/training/parallel.h"

namespace understudy {

/// A layer on the way back.
struct LayerShare {
  LayerKind kind = LayerKind::kDense;
  double begin = 0, end = 1;  ///< of the chunk's backward
};
/// In the order of the backward, behind the output layer, which takes `output_share` of it. On the way
/// forward a layer begins at 1 - end.
std::vector<LayerShare> layer_shares(const Transformer& model, const Parallel& parallel,
                                     uint32_t stage, uint32_t chunk, double output_share);

/// Parts of a layer on the way forward, as shares of it: queries, keys and values until `keys`; scores until
/// `scores`; the projection back, the network of a dense layer, router and shared experts until `experts`;
/// behind that the experts that the router picks.
struct LayerParts {
  double keys = 0, scores = 0, experts = 1;
};
LayerParts layer_parts(const Transformer& model, LayerKind kind);

/// Where a pass has to do with other GPUs, besides tensor parallelism.
struct PassStop {
  enum class What : uint8_t {
    kRoute,  ///< tokens go to experts, or come from them; what is computed behind waits for them
    kKeys,   ///< keys and values begin to go around the ring
    kKeysThere,  ///< the last ones are needed: of as many parts of scores as there are ranks the last one
  };
  What what = What::kRoute;
  double share = 0;    ///< of the pass's computing
  uint32_t times = 1;  ///< kKeys: 2 with their gradients
};
/// Of a step of the pipeline, in order. With full recomputation a backward begins, layer by layer, with the
/// forward once more: with a third of it, or half where the weights' gradients are a step of their own.
std::vector<PassStop> pass_stops(const Transformer& model, const Parallel& parallel, uint32_t stage,
                                 const PipelineStep& step, double output_share);

}  // namespace understudy
