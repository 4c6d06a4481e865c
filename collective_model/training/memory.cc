#include "collective_model/training/memory.h"

#include <algorithm>
#include <vector>

namespace understudy {
namespace {

constexpr double kMask = 1;   ///< bytes of a dropout mask's element
constexpr double kLogit = 4;  ///< bytes of a logit: the loss is computed in fp32
constexpr double kAdam = 12;

double tokens(const Transformer& model, const Parallel& parallel) {
  return double{1} * parallel.micro_batch * model.sequence;
}

/// Ranks over which what tensor parallelism leaves whole is divided.
double token_ranks(const Parallel& parallel) {
  return parallel.sequence_parallel ? parallel.tp : 1;
}

}  // namespace

LayerValues layer_values(const Transformer& model, const Parallel& parallel) {
  const double sb = tokens(model, parallel), h = model.hidden, tp = parallel.tp;
  const double mask = model.dropout ? kMask : 0;
  // Inputs of both norms, of the first matrices of attention and network, masks of both outputs.
  const double whole = sb * h * (4 * kTrainedValueBytes + 2 * mask);
  // Queries, what comes out of attention, keys and values.
  const double attention =
      sb * kTrainedValueBytes * (2 * h + 2 * static_cast<double>(key_width(model)));
  // The activation function's input, two of a gated network, and its output.
  const double network = sb * kTrainedValueBytes * model.feed_forward * (model.gated ? 3 : 2);
  // After the softmax; with dropout also its mask and what it leaves.
  const double score = kTrainedValueBytes + (model.dropout ? kMask + kTrainedValueBytes : 0);
  return {whole / token_ranks(parallel) + (attention + network) / tp,
          model.fused_attention ? 0 : sb * model.sequence * model.heads * score / tp};
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

StageMemory state_memory(double parameters, const Parallel& parallel) {
  const auto divided = [&](uint32_t from_stage, double bytes) {
    return parameters * bytes / (parallel.zero >= from_stage ? parallel.dp : 1);
  };
  return {.weights = divided(3, kTrainedValueBytes),
          .gradients = divided(2, parallel.gradient_bytes),
          .optimizer = divided(1, kAdam)};
}

double layer_activations(const Transformer& model, const Parallel& parallel) {
  const LayerValues kept = layer_values(model, parallel);
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

StageMemory stage_memory(const Transformer& model, const Parallel& parallel, uint32_t stage) {
  StageMemory memory =
      state_memory(static_cast<double>(rank_parameters(model, parallel, stage)), parallel);
  const std::vector<PipelineStep> steps = pipeline_steps(pipeline_of(parallel), stage);
  memory.activations = layer_activations(model, parallel) * chunk_layers(model, parallel) *
                       held_activations(steps).until_weight_gradient;
  const double values = tokens(model, parallel) * model.hidden / token_ranks(parallel);
  const bool ends = model.vocabulary > 0;
  if (stage == 0 && ends && model.dropout) memory.ends += kMask * values * held(steps, 0);
  if (stage + 1 == parallel.pp && ends) {
    const double logits = kLogit * tokens(model, parallel) * model.vocabulary / parallel.tp;
    memory.ends += (2 * kTrainedValueBytes * values + logits) * held(steps, parallel.chunks - 1);
  }
  const LayerValues kept = layer_values(model, parallel);
  if (parallel.recompute != Recompute::kNone) memory.working += kept.scores;
  if (parallel.recompute == Recompute::kFull) memory.working += kept.linear;
  if (parallel.zero == 3 && parallel.dp > 1) {
    const double of_layer = static_cast<double>(layer_parameters(model).of_rank(parallel.tp));
    memory.working += kTrainedValueBytes * of_layer * std::min(2U, model.layers / parallel.pp);
  }
  return memory;
}

}  // namespace understudy
