#include "collective_model/training/operators.h"

namespace understudy {
namespace {

using Shape = std::vector<uint64_t>;

/// A product with weights, and its two of the way back.
void add_product(Operators& out, uint64_t tokens, uint64_t from, uint64_t to) {
  out.forward.push_back({"gemm", {tokens, from, to}});
  out.backward.push_back({"gemm", {tokens, to, from}});
  out.weight_gradient.push_back({"gemm", {from, tokens, to}});
}

void add_values(Operators& out, std::string_view forward, std::string_view backward,
                const Shape& shape) {
  out.forward.push_back({forward, shape});
  out.backward.push_back({backward, shape});
}

}  // namespace

Operators layer_operators(const Transformer& model, const Parallel& parallel) {
  Operators out;
  const uint64_t tokens = uint64_t{parallel.micro_batch} * model.sequence, tp = parallel.tp;
  const Shape whole{tokens / (parallel.sequence_parallel ? tp : 1), model.hidden};
  const uint64_t h = model.hidden, wide = model.feed_forward / tp, own = h / tp;
  const Shape attention{parallel.micro_batch, model.heads / tp, model.kv_groups / tp,
                        model.sequence, h / model.heads};
  add_values(out, "norm", "norm_backward", whole);
  add_product(out, tokens, h, own + 2 * key_width(model) / tp);
  add_values(out, "attention", "attention_backward", attention);
  add_product(out, tokens, own, h);
  add_values(out, "add", "add_backward", whole);
  add_values(out, "norm", "norm_backward", whole);
  add_product(out, tokens, h, (model.gated ? 2 : 1) * wide);
  add_values(out, "activation", "activation_backward", {tokens, wide});
  add_product(out, tokens, wide, h);
  add_values(out, "add", "add_backward", whole);
  std::vector<Operator> again;
  if (parallel.recompute == Recompute::kFull) again = out.forward;
  if (parallel.recompute == Recompute::kSelective && !model.fused_attention) {
    again.push_back({"attention", attention});
  }
  out.backward.insert(out.backward.begin(), again.begin(), again.end());
  return out;
}

Operators output_operators(const Transformer& model, const Parallel& parallel) {
  Operators out;
  const uint64_t tokens = uint64_t{parallel.micro_batch} * model.sequence;
  const uint64_t words = model.vocabulary / parallel.tp;
  add_product(out, tokens, model.hidden, words);
  add_values(out, "loss", "loss_backward", {tokens, words});
  return out;
}

GivenTimes sum_of(const Operators& operators,
                  const std::function<double(const Operator& one)>& seconds) {
  GivenTimes sum;
  for (const Operator& one : operators.forward) sum.forward += seconds(one);
  for (const Operator& one : operators.backward) sum.backward += seconds(one);
  for (const Operator& one : operators.weight_gradient) sum.weight_gradient += seconds(one);
  sum.backward += sum.weight_gradient;
  return sum;
}

}  // namespace understudy
