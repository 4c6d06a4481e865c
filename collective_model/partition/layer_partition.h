// A layer's neurons divided over workers so that little crosses between them (the aim of RePurpose, arXiv
// 2008.08289; the formulation is this project's).
//
// The layer is a matrix of weights, a row for each neuron; each of its inputs lies on a worker already. Neurons
// are placed, as many on each worker, and weights are changed: the cost is the square of all changes plus
// lambda for each weight that is left between two workers. For a given place of a neuron the best is known: a
// weight across is kept if its square is more than lambda, else it becomes zero. So a neuron on a worker costs
// the sum of min(weight^2, lambda) over the inputs that lie elsewhere, and the best places are an assignment
// (assignment.h) in which each worker stands as often as it has room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

struct PartitionedLayer {
  std::vector<std::vector<double>> weights;  ///< by neuron and input; finite
  std::vector<uint32_t> input_workers;       ///< by input
  uint32_t workers = 1;
  /// What a weight across costs, against the square of its change. Nothing: no weight is changed, and each that
  /// is not zero costs 1.
  std::optional<double> lambda;
};

/// What a placement comes to.
struct PlacementCost {
  double cost = 0;
  uint64_t kept = 0;     ///< weights across that are left
  uint64_t dropped = 0;  ///< weights across that became zero
  /// Values sent: an input goes once to each other worker of which a neuron uses it.
  uint64_t values = 0;
  std::vector<std::vector<uint64_t>> sent;  ///< values from worker to worker
};

/// In words: rows of unequal length, no room for the neurons, workers that there are not, more than 2048 neurons.
Result<void> check_layer(const PartitionedLayer& layer);

// The rest takes a layer that was checked.

/// `places`: the worker of each neuron.
PlacementCost placement_cost(const PartitionedLayer& layer, const std::vector<uint32_t>& places);
/// Neurons in their order: the first n / workers on the first one.
std::vector<uint32_t> contiguous_placement(const PartitionedLayer& layer);
/// One of the cheapest.
std::vector<uint32_t> cheapest_placement(const PartitionedLayer& layer);

}  // namespace understudy
