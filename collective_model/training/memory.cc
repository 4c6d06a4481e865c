#include "collective_model/training/memory.h"

#include <algorithm>
#include <vector>

namespace understudy {
namespace {

constexpr double kMask = 1;   ///< bytes of a dropout mask's element
constexpr double kLogit = 4;  ///< bytes of a logit: the loss is computed in fp32
constexpr double kAdam = 12;

/// Of a micro-batch, on one GPU.
double tokens(const Transformer& model, const Parallel& parallel) {
  return double{1} * parallel.micro_batch * model.sequence / parallel.cp;
}

/// Ranks over which what tensor parallelism leaves whole is divided.
double token_ranks(const Parallel& parallel) {
  return parallel.sequence_parallel ? parallel.tp : 1;
}

}  // namespace

LayerValues layer_values(const Transformer& model, const Parallel& parallel, LayerKind kind) {
  const double sb = tokens(model, parallel), h = model.hidden, tp = parallel.tp;
  const double mask = model.dropout ? kMask : 0;
  // Inputs of both norms, of the first matrices of attention and network, masks of both outputs.
  const double whole = sb * h * (4 * kTrainedValueBytes + 2 * mask);
  // Queries, what comes out of attention, keys and values.
  const double attention =
      sb * kTrainedValueBytes * (2 * h + 2 * static_cast<double>(key_width(model)));
  // The activation function's input, two of a gated network, and its output.
  const auto network = [&](double width) {
    return sb * kTrainedValueBytes * width * (model.gated ? 3 : 2);
  };
  // After the softmax; with dropout also its mask and what it leaves.
  const double score = kTrainedValueBytes + (model.dropout ? kMask + kTrainedValueBytes : 0);
  LayerValues values{whole / token_ranks(parallel) + attention / tp,
                     model.fused_attention ? 0 : sb * model.sequence * model.heads * score / tp};
  if (kind == LayerKind::kDense) {
    values.linear += network(model.feed_forward) / tp;
    return values;
  }
  const double width = model.expert_feed_forward, routed = routed_tokens(model);
  values.linear += network(width) * (model.shared_experts + routed) / tp;
  // Inputs of experts, which tensor ranks gather; what comes out of them, and the router's shares, for the
  // gradients of these shares.
  values.linear += sb * routed * h * kTrainedValueBytes * (1 + 1 / token_ranks(parallel)) +
                   sb * model.experts * kLogit / token_ranks(parallel);
  return values;
}

double key_bytes(const Transformer& model, const Parallel& parallel) {
  return 2 * kTrainedValueBytes * tokens(model, parallel) * static_cast<double>(key_width(model)) /
         parallel.tp;
}

namespace {

/// The most micro-batches of chunk `chunk` that are held at once.
double held(const std::vector<PipelineStep>& steps, uint32_t chunk) {
  std::vector<PipelineStep> own;
  std::ranges::copy_if(steps, std::back_inserter(own),
                       [&](const PipelineStep& step) { return step.chunk == chunk; });
  return held_activations(own).until_weight_gradient;
}

}  // namespace

StageMemory state_memory(double parameters, const Parallel& parallel, uint32_t replicas) {
  const auto divided = [&](uint32_t from_stage, double bytes) {
    return parameters * bytes / (parallel.zero >= from_stage ? replicas : 1);
  };
  return {.weights = divided(3, kTrainedValueBytes),
          .gradients = divided(2, parallel.gradient_bytes),
          .optimizer = divided(1, kAdam)};
}

StageMemory state_memory(double parameters, const Parallel& parallel) {
  return state_memory(parameters, parallel, parallel.replicas());
}

double layer_activations(const Transformer& model, const Parallel& parallel, LayerKind kind) {
  const LayerValues kept = layer_values(model, parallel, kind);
  switch (parallel.recompute) {
    case Recompute::kNone:
      return kept.linear + kept.scores;
    case Recompute::kSelective:
      return kept.linear;
    case Recompute::kFull:
      break;
  }
  return kTrainedValueBytes * tokens(model, parallel) * model.hidden / token_ranks(parallel);
}

namespace {

/// The most of `chunks`' activations that are held at a time, each of one micro-batch.
double most_held(const std::vector<PipelineStep>& steps, const std::vector<double>& chunks) {
  const bool alike =
      std::ranges::adjacent_find(chunks, std::ranges::not_equal_to{}) == chunks.end();
  if (alike) return chunks.front() * held_activations(steps).until_weight_gradient;
  // Only interleaved schedules have several chunks, and these do not cut backwards in two.
  double now = 0, most = 0;
  for (const PipelineStep& step : steps) {
    const bool forward = step.kind == PipelineStep::Kind::kForward;
    now += forward ? chunks[step.chunk] : -chunks[step.chunk];
    most = std::max(most, now);
  }
  return most;
}

/// What layers keep when most is held.
double held_activations_of(const Transformer& model, const Parallel& parallel, uint32_t stage,
                           const std::vector<PipelineStep>& steps) {
  const double dense = layer_activations(model, parallel);
  const uint32_t layers = chunk_layers(model, parallel);
  std::vector<double> chunks;
  for (uint32_t chunk = 0; chunk < parallel.chunks; ++chunk) {
    const double of_dense = dense_chunk_layers(model, parallel, stage, chunk);
    double kept = of_dense * dense;
    if (of_dense < layers) {
      kept += (layers - of_dense) * layer_activations(model, parallel, LayerKind::kExperts);
    }
    chunks.push_back(kept);
  }
  return most_held(steps, chunks);
}

/// Parameters of the largest two layers that follow each other.
double two_layers(const Transformer& model, const Parallel& parallel, uint32_t stage) {
  double most = 0, former = 0;
  for (uint32_t chunk = 0; chunk < parallel.chunks; ++chunk) {
    for (uint32_t layer = 0; layer < chunk_layers(model, parallel); ++layer) {
      const LayerKind kind = chunk_layer_kind(model, parallel, stage, chunk, layer);
      const auto own = static_cast<double>(held_layer(model, parallel, kind).all());
      most = std::max(most, former + own);
      former = own;
    }
  }
  return most;
}

}  // namespace

StageMemory stage_memory(const Transformer& model, const Parallel& parallel, uint32_t stage) {
  const HeldParameters own = held_parameters(model, parallel, stage);
  StageMemory memory = state_memory(static_cast<double>(own.common), parallel);
  const StageMemory experts =
      state_memory(static_cast<double>(own.experts), parallel, parallel.replicas() / parallel.ep);
  memory.weights += experts.weights;
  memory.gradients += experts.gradients;
  memory.optimizer += experts.optimizer;
  const std::vector<PipelineStep> steps = pipeline_steps(pipeline_of(parallel), stage);
  memory.activations = held_activations_of(model, parallel, stage, steps);
  const double values = tokens(model, parallel) * model.hidden / token_ranks(parallel);
  const bool ends = model.vocabulary > 0;
  if (stage == 0 && ends && model.dropout) memory.ends += kMask * values * held(steps, 0);
  if (stage + 1 == parallel.pp && ends) {
    const double logits = kLogit * tokens(model, parallel) * model.vocabulary / parallel.tp;
    memory.ends += (2 * kTrainedValueBytes * values + logits) * held(steps, parallel.chunks - 1);
  }
  const uint32_t last = chunk_layers(model, parallel) - 1;
  const LayerValues kept = layer_values(
      model, parallel, chunk_layer_kind(model, parallel, stage, parallel.chunks - 1, last));
  if (parallel.recompute != Recompute::kNone) memory.working += kept.scores;
  if (parallel.recompute == Recompute::kFull) memory.working += kept.linear;
  if (parallel.zero == 3 && parallel.replicas() > 1) {
    memory.working += kTrainedValueBytes * two_layers(model, parallel, stage);
  }
  // Keys and values of a neighbour, and those that come next.
  if (parallel.cp > 1) memory.working += 2 * key_bytes(model, parallel);
  return memory;
}

}  // namespace understudy
