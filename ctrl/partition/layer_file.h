// Reads a layer that `understudy workload partition` divides: JSON, or a matrix as CSV.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collective_model/partition/layer_partition.h"

namespace understudy {

/// What the command says, in place of the file or besides.
struct LayerOptions {
  std::optional<uint32_t> workers;
  std::optional<double> lambda;
  std::string inputs;  ///< "0,0,1,1": the worker of each input
  bool cut = false;    ///< no weight is changed
};

/// The layers of a text, checked. JSON, which begins with '{': an object with W (rows of numbers), workers,
/// input_worker and, unless no weight is changed, lam; or one whose `cases` are such objects. Other texts are
/// CSV: a row of weights for each neuron. Inputs that are not told of lie in their order, as many on each
/// worker. Errors name the row, case or key.
Result<std::vector<PartitionedLayer>> parse_layers(std::string_view text,
                                                   const LayerOptions& options);

}  // namespace understudy
