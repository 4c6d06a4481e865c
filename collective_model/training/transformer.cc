#include "collective_model/training/transformer.h"

#include <algorithm>

namespace understudy {
namespace {

struct ShapePreset {
  std::string_view name;
  Transformer shape;
};

constexpr Transformer gpt3(uint32_t layers, uint32_t hidden, uint32_t heads) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_groups = heads,
          .feed_forward = 4 * hidden,
          .vocabulary = 51200,
          .sequence = 2048};
}

constexpr Transformer llama(Transformer shape) {
  shape.gated = shape.rms_norm = true;
  shape.tied_embeddings = shape.biases = shape.positions = shape.dropout = false;
  return shape;
}

constexpr Transformer llama2(uint32_t layers, uint32_t hidden, uint32_t heads, uint32_t groups,
                             uint32_t feed_forward) {
  return llama({.layers = layers,
                .hidden = hidden,
                .heads = heads,
                .kv_groups = groups,
                .feed_forward = feed_forward,
                .vocabulary = 32000,
                .sequence = 4096});
}

constexpr Transformer llama3(uint32_t layers, uint32_t hidden, uint32_t heads,
                             uint32_t feed_forward) {
  return llama({.layers = layers,
                .hidden = hidden,
                .heads = heads,
                .kv_groups = 8,
                .feed_forward = feed_forward,
                .vocabulary = 128256,
                .sequence = 8192});
}

constexpr ShapePreset kShapes[] = {
    {"gpt3-125m", gpt3(12, 768, 12)},
    {"gpt3-350m", gpt3(24, 1024, 16)},
    {"gpt3-760m", gpt3(24, 1536, 16)},
    {"gpt3-2.7b", gpt3(32, 2560, 32)},
    {"gpt3-6.7b", gpt3(32, 4096, 32)},
    {"gpt3-13b", gpt3(40, 5120, 40)},
    {"gpt3-175b", gpt3(96, 12288, 96)},
    {"llama2-7b", llama2(32, 4096, 32, 32, 11008)},
    {"llama2-13b", llama2(40, 5120, 40, 40, 13824)},
    {"llama2-70b", llama2(80, 8192, 64, 8, 28672)},
    {"llama3-8b", llama3(32, 4096, 32, 14336)},
    {"llama3-70b", llama3(80, 8192, 64, 28672)},
    {"llama3-405b", llama3(126, 16384, 128, 53248)},
};

uint64_t norm_parameters(const Transformer& model) {
  return (model.rms_norm ? 1 : 2) * uint64_t{model.hidden};
}

/// Width of what the first matrix of the feed-forward network gives.
uint64_t first_width(const Transformer& model) {
  return (model.gated ? 2 : 1) * uint64_t{model.feed_forward};
}

}  // namespace

std::vector<std::string_view> transformer_presets() {
  std::vector<std::string_view> names;
  for (const ShapePreset& preset : kShapes) names.push_back(preset.name);
  return names;
}

std::optional<Transformer> find_transformer(std::string_view name) {
  const auto* preset = std::ranges::find(kShapes, name, &ShapePreset::name);
  if (preset == std::end(kShapes)) return std::nullopt;
  return preset->shape;
}

uint64_t key_width(const Transformer& model) {
  return uint64_t{model.hidden} / model.heads * model.kv_groups;
}

uint64_t layer_matrices(const Transformer& model) {
  const uint64_t h = model.hidden;
  return 2 * h * h + 2 * h * key_width(model) + h * (first_width(model) + model.feed_forward);
}

Parameters layer_parameters(const Transformer& model) {
  const uint64_t h = model.hidden;
  Parameters sum{layer_matrices(model), 2 * norm_parameters(model)};
  if (model.biases) {
    sum += {h + 2 * key_width(model) + first_width(model), 2 * h};
  }
  return sum;
}

Parameters embedding_parameters(const Transformer& model) {
  const uint64_t h = model.hidden;
  if (model.vocabulary == 0) return {};
  return {model.vocabulary * h, model.positions ? model.sequence * h : 0};
}

Parameters output_parameters(const Transformer& model) {
  if (model.vocabulary == 0) return {};
  const uint64_t words = model.vocabulary * uint64_t{model.hidden};
  return {model.tied_embeddings ? 0 : words, norm_parameters(model)};
}

uint64_t model_parameters(const Transformer& model) {
  Parameters sum = layer_parameters(model) * model.layers;
  sum += embedding_parameters(model);
  sum += output_parameters(model);
  return sum.all();
}

LayerFlops layer_flops(const Transformer& model) {
  const double s = model.sequence;
  return {2 * s * static_cast<double>(layer_matrices(model)), 4 * s * s * model.hidden};
}

double output_flops(const Transformer& model) {
  return 2.0 * model.sequence * model.hidden * model.vocabulary;
}

double iteration_flops(const Transformer& model, Recompute recompute, uint64_t batch) {
  LayerFlops forward = layer_flops(model);
  if (model.fused_attention) forward.scores /= 2;
  double layer = 3 * (forward.matrices + forward.scores);
  // Of the five products with scores on a fused kernel's way back one is done again.
  if (model.fused_attention) layer += forward.scores / 2;
  const bool again = recompute == Recompute::kSelective && !model.fused_attention;
  if (again || recompute == Recompute::kFull) layer += forward.scores;
  if (recompute == Recompute::kFull) layer += forward.matrices;
  return static_cast<double>(batch) * (model.layers * layer + 3 * output_flops(model));
}

}  // namespace understudy
