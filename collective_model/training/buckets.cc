#include "collective_model/training/buckets.h"

#include <algorithm>

namespace understudy {
namespace {

/// What tensor parallelism leaves of a matrix, or of a vector that it divides.
uint64_t part(uint64_t parameters, const Parallel& parallel) { return parameters / parallel.tp; }

void add(std::vector<TrainedTensor>& out, uint64_t parameters, double ready) {
  if (parameters > 0) out.push_back({parameters, ready});
}

void add_norm(std::vector<TrainedTensor>& out, const Transformer& model, double ready) {
  if (!model.rms_norm) add(out, model.hidden, ready);
  add(out, model.hidden, ready);
}

/// Last ones first.
void add_network(std::vector<TrainedTensor>& out, const Transformer& model,
                 const Parallel& parallel, double ready) {
  const uint64_t hidden = model.hidden, wide = model.feed_forward, in = first_width(model, wide);
  if (model.biases) add(out, hidden, ready);
  add(out, part(hidden * wide, parallel), ready);
  if (model.biases) add(out, part(in, parallel), ready);
  add(out, part(hidden * in, parallel), ready);
}

/// Shared ones, those of this GPU as two matrices, the router.
void add_experts(std::vector<TrainedTensor>& out, const Transformer& model,
                 const Parallel& parallel, double ready) {
  const uint64_t hidden = model.hidden, wide = model.expert_feed_forward,
                 in = first_width(model, wide), own = model.experts / parallel.ep;
  add(out, part(model.shared_experts * hidden * wide, parallel), ready);
  add(out, part(model.shared_experts * hidden * in, parallel), ready);
  for (const uint64_t width : {wide, in}) {
    out.push_back({part(own * hidden * width, parallel), ready, parallel.ep > 1});
  }
  add(out, hidden * model.experts, ready);
}

/// Of a layer, last ones first: network, its norm, attention, its norm.
void add_layer(std::vector<TrainedTensor>& out, const Transformer& model, const Parallel& parallel,
               LayerKind kind, double ready) {
  const uint64_t hidden = model.hidden, keys = hidden + 2 * key_width(model);
  kind == LayerKind::kDense ? add_network(out, model, parallel, ready)
                            : add_experts(out, model, parallel, ready);
  add_norm(out, model, ready);
  if (model.biases) add(out, hidden, ready);
  add(out, part(hidden * hidden, parallel), ready);
  if (model.biases) add(out, part(keys, parallel), ready);
  add(out, part(hidden * keys, parallel), ready);
  add_norm(out, model, ready);
}

}  // namespace

std::vector<GradientBucket> fill_buckets(std::span<const TrainedTensor> last_first, uint64_t first,
                                         uint64_t least) {
  std::vector<GradientBucket> out;
  GradientBucket open{0, 0};
  for (const TrainedTensor& tensor : last_first) {
    open.parameters += tensor.parameters;
    open.ready = std::max(open.ready, tensor.ready);
    if (open.parameters < (out.empty() ? first : least)) continue;
    out.push_back(open);
    open = {0, 0};
  }
  if (open.parameters > 0) out.push_back(open);
  return out;
}

uint64_t bucket_parameters(const Parallel& parallel) {
  if (parallel.bucket > 0) return parallel.bucket;
  return std::max<uint64_t>(40'000'000, uint64_t{1'000'000} * parallel.replicas());
}

std::vector<TrainedTensor> chunk_tensors(const Transformer& model, const Parallel& parallel,
                                         uint32_t stage, uint32_t chunk, double output_share) {
  std::vector<TrainedTensor> out;
  const EndParameters ends = end_parameters(model, parallel, stage);
  const bool first = stage == 0 && chunk == 0;
  const bool last = stage + 1 == parallel.pp && chunk + 1 == parallel.chunks;
  if (last) add(out, ends.last, output_share);
  for (const LayerShare& layer : layer_shares(model, parallel, stage, chunk, output_share)) {
    add_layer(out, model, parallel, layer.kind, layer.end);
  }
  if (first) add(out, ends.first, 1);
  return out;
}

std::vector<GradientBucket> chunk_units(const Transformer& model, const Parallel& parallel,
                                        uint32_t stage, uint32_t chunk, double output_share) {
  const EndParameters ends = end_parameters(model, parallel, stage);
  const bool first = stage == 0 && chunk == 0;
  const bool last = stage + 1 == parallel.pp && chunk + 1 == parallel.chunks;
  std::vector<GradientBucket> out;
  if (last && ends.last > 0) out.push_back({ends.last, output_share});
  for (const LayerShare& layer : layer_shares(model, parallel, stage, chunk, output_share)) {
    const HeldParameters held = held_layer(model, parallel, layer.kind);
    if (held.experts > 0) out.push_back({held.experts, layer.end, true});
    out.push_back({held.common, layer.end});
  }
  if (first && ends.first > 0) out.push_back({ends.first, 1});
  return out;
}

std::vector<GradientBucket> chunk_buckets(const Transformer& model, const Parallel& parallel,
                                          uint32_t stage, uint32_t chunk, double output_share) {
  const auto tensors = chunk_tensors(model, parallel, stage, chunk, output_share);
  const bool cut = parallel.overlap_gradients || parallel.bucket > 0;
  const uint64_t full = cut ? bucket_parameters(parallel) : UINT64_MAX;
  std::vector<TrainedTensor> common, experts;
  for (const TrainedTensor& tensor : tensors) {
    (tensor.experts ? experts : common).push_back(tensor);
  }
  std::vector<GradientBucket> out = fill_buckets(common, full, full);
  const auto rest = static_cast<ptrdiff_t>(out.size());
  for (GradientBucket bucket : fill_buckets(experts, full, full)) {
    bucket.experts = true;
    out.push_back(bucket);
  }
  std::inplace_merge(
      out.begin(), out.begin() + rest, out.end(),
      [](const GradientBucket& a, const GradientBucket& b) { return a.ready < b.ready; });
  return out;
}

}  // namespace understudy
