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

constexpr Transformer megatron(uint32_t layers, uint32_t hidden, uint32_t heads) {
  return gpt3(layers, hidden, heads);
}

constexpr Transformer llama32(uint32_t layers, uint32_t hidden, uint32_t heads) {
  Transformer shape = llama3(layers, hidden, heads, 8192);
  shape.tied_embeddings = true;
  return shape;
}

constexpr Transformer bert(uint32_t layers, uint32_t hidden, uint32_t heads) {
  Transformer shape = gpt3(layers, hidden, heads);
  shape.vocabulary = 30528;
  shape.sequence = 512;
  return shape;
}

constexpr Transformer mixtral(uint32_t layers, uint32_t hidden, uint32_t heads,
                              uint32_t feed_forward, uint32_t vocabulary) {
  return llama({.layers = layers,
                .hidden = hidden,
                .heads = heads,
                .kv_groups = 8,
                .feed_forward = feed_forward,
                .vocabulary = vocabulary,
                .sequence = 4096,
                .experts = 8,
                .top_k = 2,
                .expert_feed_forward = feed_forward});
}

constexpr ShapePreset kShapes[] = {
    {"gpt3-125m", gpt3(12, 768, 12)},
    {"gpt3-350m", gpt3(24, 1024, 16)},
    {"gpt3-760m", gpt3(24, 1536, 16)},
    {"gpt3-1.3b", gpt3(24, 2048, 16)},
    {"gpt3-2.7b", gpt3(32, 2560, 32)},
    {"gpt3-6.7b", gpt3(32, 4096, 32)},
    {"gpt3-13b", gpt3(40, 5120, 40)},
    {"gpt3-175b", gpt3(96, 12288, 96)},
    {"megatron-22b", megatron(48, 6144, 64)},
    {"megatron-530b", megatron(105, 20480, 128)},
    {"megatron-1t", megatron(128, 25600, 160)},
    {"bert-large", bert(24, 1024, 16)},
    {"llama2-7b", llama2(32, 4096, 32, 32, 11008)},
    {"llama2-13b", llama2(40, 5120, 40, 40, 13824)},
    {"llama2-70b", llama2(80, 8192, 64, 8, 28672)},
    {"llama3-8b", llama3(32, 4096, 32, 14336)},
    {"llama3-70b", llama3(80, 8192, 64, 28672)},
    {"llama3-405b", llama3(126, 16384, 128, 53248)},
    {"llama3.2-1b", llama32(16, 2048, 32)},
    {"llama3.2-3b", llama32(28, 3072, 24)},
    {"mixtral-8x7b", mixtral(32, 4096, 32, 14336, 32000)},
    {"mixtral-8x22b", mixtral(56, 6144, 48, 16384, 32768)},
    {"deepseek-v3-like", llama({.layers = 61,
                                .hidden = 7168,
                                .heads = 128,
                                .kv_groups = 128,
                                .feed_forward = 18432,
                                .vocabulary = 129280,
                                .sequence = 4096,
                                .experts = 256,
                                .top_k = 8,
                                .expert_feed_forward = 2048,
                                .shared_experts = 1,
                                .dense_layers = 3})},
};

uint64_t norm_parameters(const Transformer& model) {
  return (model.rms_norm ? 1 : 2) * uint64_t{model.hidden};
}

uint64_t attention_matrices(const Transformer& model) {
  const uint64_t h = model.hidden;
  return 2 * h * h + 2 * h * key_width(model);
}

/// Of a feed-forward network of this width.
uint64_t network_matrices(const Transformer& model, uint64_t width) {
  return model.hidden * (first_width(model, width) + width);
}

uint64_t router_parameters(const Transformer& model) {
  return uint64_t{model.hidden} * model.experts;
}

uint32_t expert_layers(const Transformer& model) {
  return model.experts == 0 ? 0 : model.layers - std::min(model.layers, model.dense_layers);
}

}  // namespace

LayerKind layer_kind(const Transformer& model, uint32_t layer) {
  const bool dense = model.experts == 0 || layer < model.dense_layers;
  return dense ? LayerKind::kDense : LayerKind::kExperts;
}

uint64_t first_width(const Transformer& model, uint64_t width) {
  return (model.gated ? 2 : 1) * width;
}

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
  return attention_matrices(model) + network_matrices(model, model.feed_forward);
}

uint64_t expert_parameters(const Transformer& model) {
  return network_matrices(model, model.expert_feed_forward);
}

double routed_tokens(const Transformer& model) { return model.top_k * model.expert_capacity; }

Parameters layer_parameters(const Transformer& model, LayerKind kind) {
  const uint64_t h = model.hidden;
  Parameters sum{attention_matrices(model), 2 * norm_parameters(model)};
  if (model.biases) sum += {h + 2 * key_width(model), h};
  if (kind == LayerKind::kExperts) {
    const uint64_t expert = expert_parameters(model);
    sum += {model.shared_experts * expert, router_parameters(model), model.experts * expert};
    return sum;
  }
  sum.divided += network_matrices(model, model.feed_forward);
  if (model.biases) sum += {first_width(model, model.feed_forward), h};
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
  const uint32_t experts = expert_layers(model);
  Parameters sum = layer_parameters(model) * (model.layers - experts);
  sum += layer_parameters(model, LayerKind::kExperts) * experts;
  sum += embedding_parameters(model);
  sum += output_parameters(model);
  return sum.all();
}

uint64_t active_parameters(const Transformer& model) {
  const uint64_t idle = model.experts - std::min(model.top_k, model.experts);
  return model_parameters(model) - expert_layers(model) * idle * expert_parameters(model);
}

LayerFlops layer_flops(const Transformer& model, LayerKind kind) {
  const double s = model.sequence, attention = static_cast<double>(attention_matrices(model));
  LayerFlops flops;
  flops.scores = 4 * s * s * model.hidden;
  flops.keys = attention - static_cast<double>(model.hidden) * model.hidden;
  flops.keys *= 2 * s;
  if (kind == LayerKind::kDense) {
    flops.matrices = 2 * s * static_cast<double>(layer_matrices(model));
    return flops;
  }
  const double expert = static_cast<double>(expert_parameters(model));
  const double all =
      attention + static_cast<double>(router_parameters(model)) + model.shared_experts * expert;
  flops.experts = 2 * s * routed_tokens(model) * expert;
  flops.matrices = 2 * s * all + flops.experts;
  return flops;
}

double output_flops(const Transformer& model) {
  return 2.0 * model.sequence * model.hidden * model.vocabulary;
}

double iteration_flops(const Transformer& model, Recompute recompute, uint64_t batch) {
  const auto of_layer = [&](LayerKind kind) {
    LayerFlops forward = layer_flops(model, kind);
    if (model.fused_attention) forward.scores /= 2;
    double layer = 3 * (forward.matrices + forward.scores);
    // Of the five products with scores on a fused kernel's way back one is done again.
    if (model.fused_attention) layer += forward.scores / 2;
    const bool again = recompute == Recompute::kSelective && !model.fused_attention;
    if (again || recompute == Recompute::kFull) layer += forward.scores;
    if (recompute == Recompute::kFull) layer += forward.matrices;
    return layer;
  };
  const double experts = expert_layers(model), dense = model.layers - experts;
  double layers = dense * of_layer(LayerKind::kDense);
  if (experts > 0) layers += experts * of_layer(LayerKind::kExperts);
  return static_cast<double>(batch) * (layers + 3 * output_flops(model));
}

}  // namespace understudy
