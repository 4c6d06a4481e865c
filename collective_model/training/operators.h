// The operators that a GPU carries out for one layer and one micro-batch, each with its shape, for tables of what
// operators take: matrices (rows, inner, columns), attention (sequences, heads, heads of keys, tokens, width of a
// head), and values (tokens, width). Shapes are those of one rank of tensor parallelism.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "collective_model/training/compute_time.h"

namespace understudy {

struct Operator {
  std::string_view name;  ///< "gemm", "attention", "norm", ..; of the way back "norm_backward", ..
  std::vector<uint64_t> shape;

  bool operator==(const Operator&) const = default;
};

/// By what they are a part of.
struct Operators {
  std::vector<Operator> forward;
  std::vector<Operator> backward;  ///< what is computed again first; without the next ones
  std::vector<Operator> weight_gradient;
};
/// Of a layer: norms, matrices, attention, activation function, additions with bias and dropout.
Operators layer_operators(const Transformer& model, const Parallel& parallel);
/// Of the output layer and the loss.
Operators output_operators(const Transformer& model, const Parallel& parallel);

/// The sums, from the seconds of each operator.
GivenTimes sum_of(const Operators& operators,
                  const std::function<double(const Operator& one)>& seconds);

}  // namespace understudy
