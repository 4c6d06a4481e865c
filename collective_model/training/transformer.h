// The shape of a transformer: its parameters and what its matrices cost to multiply.
//
// A layer is attention (queries, keys and values, a projection back) and a feed-forward network, each
// behind a norm. With experts (arXiv 2101.03961, arXiv 2401.04088) the network of a layer is several, of
// which a router picks `top_k` for each token; it is assumed to give all of them as many tokens. Parameters: arXiv 2104.04473, equation 2, 12lh^2(1 + 13/12h + (V+s)/12lh), here term
// by term, so that groups of keys, gated networks and models without biases count as well. FLOPs: the
// same paper, equation 3 and its appendix; a multiplication and an addition are two.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace understudy {

struct Transformer {
  uint32_t layers = 1;
  uint32_t hidden = 1;
  uint32_t heads = 1;           ///< of queries; divides hidden
  uint32_t kv_groups = 1;       ///< heads of keys and values; divides heads
  uint32_t feed_forward = 4;    ///< width of the network in the middle
  bool gated = false;           ///< SwiGLU: three matrices in place of two
  uint32_t vocabulary = 1;      ///< 0: layers alone, without embeddings, output layer and loss
  uint32_t sequence = 1;        ///< tokens
  bool tied_embeddings = true;  ///< the output layer is the word embedding once more
  bool biases = true;           ///< of all matrices of the layers
  bool positions = true;        ///< an embedding of positions is learned
  bool rms_norm = false;        ///< norms have a scale and no shift
  bool dropout = true;          ///< of attention and of both outputs; its masks are kept
  /// Attention is one kernel that keeps no scores, computes them once more on the way back, and leaves the
  /// masked half out (FlashAttention, arXiv 2205.14135, arXiv 2307.08691).
  bool fused_attention = false;

  uint32_t experts = 0;              ///< of a layer; 0: all networks are dense
  uint32_t top_k = 1;                ///< experts of a token
  uint32_t expert_feed_forward = 0;  ///< width of an expert's network, which has no biases
  uint32_t shared_experts = 0;       ///< besides these, each of all tokens
  uint32_t dense_layers = 0;         ///< the first ones, with a network of `feed_forward`
  /// Of an expert: places for tokens, in multiples of what it has on average. Empty ones are sent and
  /// computed, too.
  double expert_capacity = 1;

  bool operator==(const Transformer&) const = default;
};

enum class LayerKind : uint8_t { kDense, kExperts };
inline constexpr LayerKind kLayerKinds[] = {LayerKind::kDense, LayerKind::kExperts};
/// Of the model's layer `layer`.
LayerKind layer_kind(const Transformer& model, uint32_t layer);

/// Names of the published shapes, in a fixed order.
std::vector<std::string_view> transformer_presets();
/// The shape of this name; nothing if there is none. GPT-3: arXiv 2005.14165, table 2.1, with the
/// vocabulary padded to 51200 as in arXiv 2104.04473, and 16 heads of the 1.3B model, which that table's 24
/// do not divide. Megatron: arXiv 2205.05198, table 3. BERT: arXiv 1810.04805, without its pooler and its
/// types of tokens, padded to 30528. Llama 2: arXiv 2307.09288. Llama 3: arXiv 2407.21783, and the files of
/// Llama 3.2. Mixtral: arXiv 2401.04088, and the files of 8x22B.
///
/// deepseek-v3-like: arXiv 2412.19437, with plain attention of 128 heads in place of latent attention (0.2 %
/// more parameters, and heads of 56 in place of 128 to 192 values), and no layer that predicts further tokens.
std::optional<Transformer> find_transformer(std::string_view name);

/// Width of all keys of a token: hidden / heads * kv_groups.
uint64_t key_width(const Transformer& model);

/// Parameters by what tensor parallelism does with them.
struct Parameters {
  uint64_t divided = 0;  ///< over its ranks
  uint64_t whole = 0;    ///< on each of them: norms, positions, router, biases of what is summed up
  uint64_t experts = 0;  ///< over its ranks, and by experts over those of expert parallelism

  uint64_t all() const { return divided + whole + experts; }
  /// Without experts.
  uint64_t of_rank(uint32_t tensor_ranks) const { return divided / tensor_ranks + whole; }
  Parameters& operator+=(const Parameters& o) {
    divided += o.divided;
    whole += o.whole;
    experts += o.experts;
    return *this;
  }
  Parameters operator*(uint64_t n) const { return {divided * n, whole * n, experts * n}; }
};

/// Of one dense layer's matrices alone: 12h^2 of GPT's layers.
uint64_t layer_matrices(const Transformer& model);
/// Of one layer with biases and norms: 12h^2 + 13h of GPT's layers.
Parameters layer_parameters(const Transformer& model, LayerKind kind = LayerKind::kDense);
/// Of one expert: its matrices.
uint64_t expert_parameters(const Transformer& model);
/// Width of what the first matrix of a feed-forward network of `width` gives.
uint64_t first_width(const Transformer& model, uint64_t width);
/// Tokens that a layer's experts compute for each one of the model: top_k and what capacity adds.
double routed_tokens(const Transformer& model);
/// Of words and positions.
Parameters embedding_parameters(const Transformer& model);
/// The norm behind the last layer, and the output layer where it is not the embedding.
Parameters output_parameters(const Transformer& model);
/// Of the model, each once.
uint64_t model_parameters(const Transformer& model);
/// Of these, the ones that a token meets: of experts top_k and the shared ones.
uint64_t active_parameters(const Transformer& model);

/// Forward, of one layer and one sequence.
struct LayerFlops {
  double matrices = 0;  ///< products with weights: 24sh^2 of GPT's layers
  double scores = 0;    ///< products of queries, keys and values: 4s^2h
  double experts = 0;   ///< of `matrices`, those of experts that the router picks
  double keys = 0;      ///< of `matrices`, those that give queries, keys and values
};
LayerFlops layer_flops(const Transformer& model, LayerKind kind = LayerKind::kDense);
/// Forward, of the output layer and one sequence: 2shV.
double output_flops(const Transformer& model);

/// What is computed a second time on the way back, for less memory (arXiv 2205.05198).
enum class Recompute : uint8_t {
  kNone,
  kSelective,  ///< attention's scores
  kFull,       ///< each layer, from its input
};

/// Of an iteration over `batch` sequences, on all GPUs together: forward once, backward twice that, and
/// what is computed again: scores once, by a fused kernel one of their five products. (arXiv 2205.05198,
/// appendix, counts three times as much for scores.) Masked scores count in full, but of a fused kernel.
double iteration_flops(const Transformer& model, Recompute recompute, uint64_t batch);

}  // namespace understudy
