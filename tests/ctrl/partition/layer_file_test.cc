// Layers from files, and what they cost against a solver that is not this one's.
#include "ctrl/partition/layer_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ctrl/partition/partition_text.h"

namespace understudy {
namespace {

std::string cases_text() {
  std::ifstream file(UNDERSTUDY_TEST_DATA "/workloads/partition/cases.json");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string why(std::string_view text, const LayerOptions& options = {}) {
  const auto layers = parse_layers(text, options);
  return layers ? std::string() : layers.error().text;
}

/// Neurons in their order, the cheapest placement, and the values that the first one sends.
TEST(LayerFile, EveryCaseHasItsExactCost) {
  const std::string text = cases_text();
  const nlohmann::json json = nlohmann::json::parse(text);
  const auto changed = parse_layers(text, {});
  const auto whole = parse_layers(text, {.cut = true});
  ASSERT_TRUE(changed && whole);
  ASSERT_EQ(changed->size(), 16U);
  for (size_t i = 0; i < changed->size(); ++i) {
    SCOPED_TRACE(i);
    const auto& expected = json["cases"][i];
    const DividedLayer pruned = divide((*changed)[i]), cut = divide((*whole)[i]);
    EXPECT_EQ(pruned.cheapest.cost, expected["prox"]["optimal_cost"].get<double>());
    EXPECT_EQ(pruned.contiguous.cost, expected["prox"]["contiguous_cost"].get<double>());
    EXPECT_EQ(cut.cheapest.cost, expected["l0"]["optimal_cost"].get<double>());
    EXPECT_EQ(cut.contiguous.cost, expected["l0"]["contiguous_cost"].get<double>());
    EXPECT_EQ(cut.contiguous.values, expected["values_sent_contiguous_l0"].get<uint64_t>());
    const auto theirs = expected["prox"]["one_optimal_assignment"].get<std::vector<uint32_t>>();
    EXPECT_EQ(placement_cost(pruned.layer, theirs).cost, pruned.cheapest.cost);
  }
}

TEST(LayerFile, AMatrixIsEnoughWithWhatTheCommandSays) {
  const LayerOptions options{.workers = 2, .lambda = 4, .inputs = {}};
  const auto layers = parse_layers("# two neurons\n1, -2.5\n0,3e0\r\n\n", options);
  ASSERT_TRUE(layers) << layers.error().text;
  const PartitionedLayer& layer = layers->front();
  EXPECT_EQ(layer.weights, (std::vector<std::vector<double>>{{1, -2.5}, {0, 3}}));
  EXPECT_EQ(layer.input_workers, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(layer.lambda, 4);
  const auto told =
      parse_layers("1,2\n0,3\n", {.workers = 2, .lambda = {}, .inputs = "1, 0", .cut = true});
  ASSERT_TRUE(told);
  EXPECT_EQ(told->front().input_workers, (std::vector<uint32_t>{1, 0}));
  EXPECT_FALSE(told->front().lambda);
}

TEST(LayerFile, WhatIsRefused) {
  const LayerOptions two{.workers = 2, .lambda = 1, .inputs = {}};
  EXPECT_EQ(why(""), "the file is empty");
  EXPECT_EQ(why("1,2\n3,x\n", two), "line 2: found \"x\": expected a number");
  EXPECT_EQ(why("1,2\n3\n", two), "neuron 1 has 1 weights; there are 2 inputs");
  EXPECT_EQ(why("1,2,3\n4,5,6\n", two),
            "2 workers cannot have as many of 3 inputs each (--inputs)");
  EXPECT_EQ(why("1,2\n3,4\n"), "workers: how many there are is not said (--workers)");
  EXPECT_EQ(why("1,2\n3,4\n", {.workers = 2, .lambda = {}, .inputs = {}}),
            "lambda: what a weight across costs is not said (--lambda, or --cut)");
  EXPECT_EQ(why("1,2\n3,4\n", {.workers = 2, .lambda = 1, .inputs = "0,a"}),
            "--inputs: found \"a\": expected a worker");
  EXPECT_EQ(why("{"), "no right JSON");
  EXPECT_EQ(why("{}", two), "W: expected rows of numbers");
  EXPECT_EQ(why(R"({"cases": []})"), "cases: expected a list of layers");
  EXPECT_EQ(why(R"({"cases": [{"W": [[1, 2], [3, 4]], "workers": 2, "lam": 1}, 7]})"),
            "case 1: expected an object with W, workers and input_worker");
  EXPECT_EQ(why(R"({"W": [[1, "a"]], "workers": 1, "lam": 1})"),
            "W: found \"a\": expected a number");
  EXPECT_EQ(why(R"({"W": [[1]], "workers": -1, "lam": 1})"),
            "workers: found -1: expected how many there are");
  EXPECT_EQ(why(R"({"W": [[1]], "workers": 1, "lam": 1, "input_worker": [1]})"),
            "input 0 lies on worker 1; workers are 0 to 0");
}

TEST(LayerFile, TheTextSaysWhoHasWhatAndWhatIsSent) {
  const auto layers = parse_layers("0,0,9,7\n8,5,0,0\n", {.workers = 2, .lambda = 4, .inputs = {}});
  ASSERT_TRUE(layers);
  EXPECT_EQ(partition_text({divide(layers->front())}),
            "2 neurons of 4 inputs on 2 workers; a weight across costs 4, or its square if it "
            "becomes zero\n"
            "                        cost     across    dropped     values\n"
            "  in order                16          4          0          4\n"
            "  cheapest                 0          0          0          0\n"
            "neurons of each worker, and the values that it sends to worker 0, 1, ..\n"
            "  0: 1  -> 0 0\n"
            "  1: 0  -> 0 0\n");
}

}  // namespace
}  // namespace understudy
