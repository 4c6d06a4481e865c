#include "collective_model/training/pass_shares.h"

namespace understudy {
namespace {

/// Forward: matrices and scores.
double all_flops(const Transformer& model, LayerKind kind) {
  const LayerFlops flops = layer_flops(model, kind);
  return flops.matrices + flops.scores * (model.fused_attention ? 0.5 : 1);
}

}  // namespace

std::vector<LayerShare> layer_shares(const Transformer& model, const Parallel& parallel,
                                     uint32_t stage, uint32_t chunk, double output_share) {
  const uint32_t layers = chunk_layers(model, parallel);
  const double dense = dense_chunk_layers(model, parallel, stage, chunk);
  // In units of a dense layer.
  const double other = dense < layers && model.experts > 0 ? all_flops(model, LayerKind::kExperts) /
                                                                 all_flops(model, LayerKind::kDense)
                                                           : 1;
  const double others = layers - dense;
  const double all = dense > 0 ? dense + others * other : others;
  std::vector<LayerShare> out;
  double sum = 0;
  for (uint32_t layer = layers; layer-- > 0;) {
    LayerShare share{chunk_layer_kind(model, parallel, stage, chunk, layer), output_share, 1};
    if (!out.empty()) share.begin = out.back().end;
    sum += share.kind == LayerKind::kDense || dense == 0 ? 1 : other;
    if (layer > 0) share.end = output_share + (1 - output_share) * sum / all;
    out.push_back(share);
  }
  return out;
}

LayerParts layer_parts(const Transformer& model, LayerKind kind) {
  const LayerFlops flops = layer_flops(model, kind);
  const double all = all_flops(model, kind);
  const double scores = flops.scores * (model.fused_attention ? 0.5 : 1);
  return {flops.keys / all, (flops.keys + scores) / all, 1 - flops.experts / all};
}

}  // namespace understudy
