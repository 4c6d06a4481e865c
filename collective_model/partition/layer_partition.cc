#include "collective_model/partition/layer_partition.h"

#include <algorithm>
#include <cmath>

#include "collective_model/partition/assignment.h"

namespace understudy {
namespace {

/// Of a weight that crosses.
double crossing(const PartitionedLayer& layer, double weight) {
  if (!layer.lambda) return weight != 0 ? 1 : 0;
  return std::min(weight * weight, *layer.lambda);
}

bool is_kept(const PartitionedLayer& layer, double weight) {
  return layer.lambda ? weight * weight > *layer.lambda : weight != 0;
}

}  // namespace

Result<void> check_layer(const PartitionedLayer& layer) {
  constexpr size_t kMost = 2048;  // the work is its cube
  const size_t neurons = layer.weights.size(), inputs = layer.input_workers.size();
  if (neurons == 0 || inputs == 0) return fail("a layer has at least one neuron and one input");
  if (neurons > kMost) {
    return fail(std::to_string(neurons) + " neurons: at most " + std::to_string(kMost));
  }
  if (layer.workers == 0 || neurons % layer.workers != 0) {
    return fail(std::to_string(layer.workers) + " workers cannot have as many of " +
                std::to_string(neurons) + " neurons each");
  }
  for (size_t i = 0; i < neurons; ++i) {
    if (layer.weights[i].size() != inputs) {
      return fail("neuron " + std::to_string(i) + " has " +
                  std::to_string(layer.weights[i].size()) + " weights; there are " +
                  std::to_string(inputs) + " inputs");
    }
    if (!std::ranges::all_of(layer.weights[i], [](double w) { return std::isfinite(w); })) {
      return fail("neuron " + std::to_string(i) + " has a weight that is no finite number");
    }
  }
  for (size_t j = 0; j < inputs; ++j) {
    if (layer.input_workers[j] < layer.workers) continue;
    return fail("input " + std::to_string(j) + " lies on worker " +
                std::to_string(layer.input_workers[j]) + "; workers are 0 to " +
                std::to_string(layer.workers - 1));
  }
  if (layer.lambda && !(std::isfinite(*layer.lambda) && *layer.lambda >= 0)) {
    return fail("lambda is a number of at least 0");
  }
  return {};
}

PlacementCost placement_cost(const PartitionedLayer& layer, const std::vector<uint32_t>& places) {
  PlacementCost out;
  out.sent.assign(layer.workers, std::vector<uint64_t>(layer.workers, 0));
  for (size_t j = 0; j < layer.input_workers.size(); ++j) {
    const uint32_t from = layer.input_workers[j];
    std::vector<bool> used(layer.workers, false);
    for (size_t i = 0; i < places.size(); ++i) {
      const double weight = layer.weights[i][j];
      if (places[i] == from || weight == 0) continue;
      out.cost += crossing(layer, weight);
      if (is_kept(layer, weight)) {
        ++out.kept;
        used[places[i]] = true;
      } else {
        ++out.dropped;
      }
    }
    for (uint32_t worker = 0; worker < layer.workers; ++worker) {
      if (!used[worker]) continue;
      ++out.values;
      ++out.sent[from][worker];
    }
  }
  return out;
}

std::vector<uint32_t> contiguous_placement(const PartitionedLayer& layer) {
  const size_t room = layer.weights.size() / layer.workers;
  std::vector<uint32_t> places(layer.weights.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<uint32_t>(i / room);
  return places;
}

std::vector<uint32_t> cheapest_placement(const PartitionedLayer& layer) {
  const auto neurons = static_cast<uint32_t>(layer.weights.size());
  std::vector<double> costs(size_t{neurons} * layer.workers, 0);
  for (uint32_t i = 0; i < neurons; ++i) {
    double all = 0;
    double* own = &costs[size_t{i} * layer.workers];
    for (size_t j = 0; j < layer.input_workers.size(); ++j) {
      const double one = crossing(layer, layer.weights[i][j]);
      all += one;
      own[layer.input_workers[j]] -= one;
    }
    for (uint32_t worker = 0; worker < layer.workers; ++worker) own[worker] += all;
  }
  const uint32_t room = neurons / layer.workers;
  std::vector<uint32_t> places = cheapest_assignment(neurons, [&](uint32_t neuron, uint32_t seat) {
    return costs[size_t{neuron} * layer.workers + seat / room];
  });
  for (uint32_t& place : places) place /= room;
  return places;
}

}  // namespace understudy
