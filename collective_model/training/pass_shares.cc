#include "collective_model/training/pass_shares.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

/// Forward: matrices and scores.
double all_flops(const Transformer& model, LayerKind kind) {
  const LayerFlops flops = layer_flops(model, kind);
  return flops.matrices + flops.scores * (model.fused_attention ? 0.5 : 1);
}

class Stops {
 public:
  Stops(const Transformer& model, const Parallel& parallel) : model_(model), parallel_(parallel) {}

  void forward(LayerKind kind, double at, double length) {
    const LayerParts parts = layer_parts(model_, kind);
    keys(at + length * parts.keys, length * (parts.scores - parts.keys), 1);
    if (kind == LayerKind::kDense) return;
    route(at + length * parts.experts);
    route(at + length);
  }
  void backward(LayerKind kind, double at, double length) {
    const LayerParts parts = layer_parts(model_, kind);
    if (kind == LayerKind::kExperts) {
      route(at);
      route(at + length * (1 - parts.experts));
    }
    keys(at + length * (1 - parts.scores), length * (parts.scores - parts.keys), 2);
  }
  std::vector<PassStop> take() { return std::move(stops_); }

 private:
  void route(double at) {
    if (parallel_.ep > 1) stops_.push_back({PassStop::What::kRoute, at});
  }
  void keys(double at, double scores, uint32_t times) {
    const double cp = parallel_.cp;
    if (parallel_.cp == 1) return;
    stops_.push_back({PassStop::What::kKeys, at, times});
    stops_.push_back({PassStop::What::kKeysThere, at + scores * (cp - 1) / cp});
  }

  const Transformer& model_;
  const Parallel& parallel_;
  std::vector<PassStop> stops_;
};

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

std::vector<PassStop> pass_stops(const Transformer& model, const Parallel& parallel, uint32_t stage,
                                 const PipelineStep& step, double output_share) {
  using Kind = PipelineStep::Kind;
  if (step.kind == Kind::kWeightGradient || (parallel.ep == 1 && parallel.cp == 1)) return {};
  Stops stops(model, parallel);
  std::vector<LayerShare> layers = layer_shares(model, parallel, stage, step.chunk, output_share);
  if (step.kind == Kind::kForward) {
    std::ranges::reverse(layers);
    for (const auto& [kind, begin, end] : layers) stops.forward(kind, 1 - end, end - begin);
    return stops.take();
  }
  const bool apart = parallel.schedule == PipelineSchedule::kZeroBubbleH1;
  double again = 0;
  if (parallel.recompute == Recompute::kFull) again = apart ? 1. / 2 : 1. / 3;
  for (const auto& [kind, begin, end] : layers) {
    const double length = end - begin;
    if (again > 0) stops.forward(kind, begin, length * again);
    stops.backward(kind, begin + length * again, length * (1 - again));
  }
  return stops.take();
}

}  // namespace understudy
