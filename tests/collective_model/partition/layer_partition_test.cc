// A layer over workers: costs of placements by hand, and the cheapest one against all there are.
#include "collective_model/partition/layer_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "collective_model/partition/assignment.h"

namespace understudy {
namespace {

/// Neurons 0 and 2 use what lies on worker 1, the others what lies on worker 0; but for one weight each.
PartitionedLayer crossed() {
  return {.weights = {{0, 1, 9, 7}, {8, 5, 0, 0}, {0, 0, -6, 5}, {4, -9, 0, 3}},
          .input_workers = {0, 0, 1, 1},
          .workers = 2,
          .lambda = 4};
}

TEST(LayerPartition, ACostIsTheChangesAndWhatIsLeft) {
  const PartitionedLayer layer = crossed();
  const PlacementCost contiguous = placement_cost(layer, {0, 0, 1, 1});
  // Across: 9 and 7 of neuron 0; 4 and -9 of neuron 3; all are kept.
  EXPECT_EQ(contiguous.cost, 4 * 4);
  EXPECT_EQ(contiguous.kept, 4U);
  EXPECT_EQ(contiguous.dropped, 0U);
  // Inputs 2 and 3 to worker 0, inputs 0 and 1 to worker 1.
  EXPECT_EQ(contiguous.values, 4U);
  EXPECT_EQ(contiguous.sent, (std::vector<std::vector<uint64_t>>{{0, 2}, {2, 0}}));

  const PlacementCost best = placement_cost(layer, {1, 0, 1, 0});
  // Across: the 1 of neuron 0, whose square is less than lambda, and the 3 of neuron 3.
  EXPECT_EQ(best.cost, 1 + 4);
  EXPECT_EQ(best.kept, 1U);
  EXPECT_EQ(best.dropped, 1U);
  EXPECT_EQ(best.values, 1U);
  EXPECT_EQ(cheapest_placement(layer), (std::vector<uint32_t>{1, 0, 1, 0}));
}

TEST(LayerPartition, WithoutLambdaNoWeightIsChanged) {
  PartitionedLayer layer = crossed();
  layer.lambda.reset();
  const PlacementCost best = placement_cost(layer, cheapest_placement(layer));
  EXPECT_EQ(best.cost, 2);
  EXPECT_EQ(best.kept, 2U);
  EXPECT_EQ(best.dropped, 0U);
}

/// An input that two neurons of a worker use is sent once.
TEST(LayerPartition, AValueGoesToAWorkerOnce) {
  const PartitionedLayer layer{
      .weights = {{5}, {5}, {0}, {5}, {0}, {0}}, .input_workers = {2}, .workers = 3, .lambda = {}};
  const PlacementCost cost = placement_cost(layer, {0, 0, 1, 1, 2, 2});
  EXPECT_EQ(cost.kept, 3U);
  EXPECT_EQ(cost.values, 2U);
  EXPECT_EQ(cost.sent[2], (std::vector<uint64_t>{1, 1, 0}));
}

TEST(LayerPartition, IsTheCheapestOfAll) {
  std::mt19937 random(7);
  for (uint32_t round = 0; round < 40; ++round) {
    const uint32_t workers = 2 + round % 2, neurons = 6;
    PartitionedLayer layer{.workers = workers,
                           .lambda = round % 3 == 0 ? std::optional<double>() : 6.5};
    for (uint32_t j = 0; j < 5; ++j) layer.input_workers.push_back(random() % workers);
    for (uint32_t i = 0; i < neurons; ++i) {
      auto& row = layer.weights.emplace_back();
      for (uint32_t j = 0; j < 5; ++j) row.push_back((static_cast<int>(random() % 9) - 4) / 1.25);
    }
    ASSERT_TRUE(check_layer(layer));
    std::vector<uint32_t> places = contiguous_placement(layer);
    double least = placement_cost(layer, places).cost;
    while (std::ranges::next_permutation(places).found) {
      least = std::min(least, placement_cost(layer, places).cost);
    }
    const std::vector<uint32_t> found = cheapest_placement(layer);
    EXPECT_NEAR(placement_cost(layer, found).cost, least, 1e-9);
    for (uint32_t worker = 0; worker < workers; ++worker) {
      EXPECT_EQ(std::ranges::count(found, worker), neurons / workers);
    }
  }
}

TEST(LayerPartition, WhatIsRefused) {
  const auto why = [](PartitionedLayer layer) {
    const auto checked = check_layer(layer);
    return checked ? std::string() : checked.error().text;
  };
  PartitionedLayer layer = crossed();
  EXPECT_EQ(why(layer), "");
  layer.workers = 3;
  EXPECT_EQ(why(layer), "3 workers cannot have as many of 4 neurons each");
  layer = crossed();
  layer.weights[2].pop_back();
  EXPECT_EQ(why(layer), "neuron 2 has 3 weights; there are 4 inputs");
  layer = crossed();
  layer.input_workers[1] = 2;
  EXPECT_EQ(why(layer), "input 1 lies on worker 2; workers are 0 to 1");
  layer = crossed();
  layer.lambda = -1;
  EXPECT_EQ(why(layer), "lambda is a number of at least 0");
  layer = crossed();
  layer.weights[3][0] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(why(layer), "neuron 3 has a weight that is no finite number");
  layer.weights.clear();
  EXPECT_EQ(why(layer), "a layer has at least one neuron and one input");
}

/// Costs of their own for each seat, so that rows compete.
TEST(Assignment, IsTheCheapestOfAllPermutations) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    constexpr uint32_t kSize = 6;
    double costs[kSize][kSize];
    for (auto& row : costs) {
      for (double& cost : row) cost = static_cast<int>(random() % 40) - 10;
    }
    const auto sum = [&](const std::vector<uint32_t>& columns) {
      double all = 0;
      for (uint32_t row = 0; row < kSize; ++row) all += costs[row][columns[row]];
      return all;
    };
    std::vector<uint32_t> columns{0, 1, 2, 3, 4, 5};
    double least = sum(columns);
    while (std::ranges::next_permutation(columns).found) least = std::min(least, sum(columns));
    EXPECT_EQ(sum(cheapest_assignment(
                  kSize, [&](uint32_t row, uint32_t column) { return costs[row][column]; })),
              least);
  }
}

}  // namespace
}  // namespace understudy
