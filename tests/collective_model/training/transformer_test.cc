// Parameters and FLOPs of transformers: the formulas and tables of papers, and counts of published
// models.
#include "collective_model/training/transformer.h"

#include <gtest/gtest.h>

#include "tests/collective_model/training/csv_rows.h"

namespace understudy {
namespace {

/// A model of arXiv 2104.04473, table 1.
Transformer megatron(const CsvRow& row) {
  const uint32_t hidden = row.number("hidden"), heads = row.number("heads");
  return {.layers = row.number("layers"),
          .hidden = hidden,
          .heads = heads,
          .kv_groups = heads,
          .feed_forward = 4 * hidden,
          .vocabulary = 51200,
          .sequence = 2048};
}

TEST(Transformer, MegatronsTableOfModels) {
  for (const CsvRow& row : csv_rows("workloads/published/megatron_table1.csv")) {
    SCOPED_TRACE(row.text("params_e9"));
    const Transformer model = megatron(row);
    const double l = model.layers, h = model.hidden, V = 51200, s = 2048;
    // Equation 2 leaves the last norm out.
    EXPECT_EQ(static_cast<double>(model_parameters(model)),
              12 * l * h * h + 13 * l * h + (V + s) * h + 2 * h);
    EXPECT_NEAR(static_cast<double>(model_parameters(model)) / 1e9, row.real("derived_params_e9"),
                0.0006);
    const double flops = iteration_flops(model, Recompute::kFull, row.number("batch"));
    EXPECT_NEAR(flops / row.real("derived_flops_per_iteration"), 1, 1e-12);
    const double seconds = flops / row.real("gpus") / row.real("tflops_per_gpu") / 1e12;
    EXPECT_NEAR(seconds, row.real("derived_iteration_s"), 0.0006);
  }
}

/// arXiv 2104.04473, appendix: 72 B s l h^2 (1 + s/6h + V/12lh) without recomputation. That of scores
/// adds B l 4 s^2 h.
TEST(Transformer, FlopsByWhatIsComputedAgain) {
  const Transformer model = *find_transformer("gpt3-175b");
  const double l = 96, h = 12288, s = 2048, V = 51200, B = 1536;
  const double plain = 72 * B * s * l * h * h * (1 + s / (6 * h) + V / (12 * l * h));
  EXPECT_NEAR(iteration_flops(model, Recompute::kNone, 1536) / plain, 1, 1e-12);
  const double selective = iteration_flops(model, Recompute::kSelective, 1536);
  EXPECT_NEAR(selective / (plain + B * l * 4 * s * s * h), 1, 1e-12);
}

/// What the models' own files hold.
TEST(Transformer, PublishedModelsHaveTheirParameters) {
  const std::pair<const char*, uint64_t> models[] = {
      {"llama2-7b", 6'738'415'616},     {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},   {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},   {"llama3-405b", 405'853'388'800},
      {"llama3.2-1b", 1'235'814'400},   {"llama3.2-3b", 3'212'749'824},
      {"mixtral-8x7b", 46'702'792'704}, {"mixtral-8x22b", 140'630'071'296},
  };
  for (const auto& [name, parameters] : models) {
    EXPECT_EQ(model_parameters(*find_transformer(name)), parameters) << name;
  }
}

/// arXiv 2401.04088 and Mistral's announcement of 8x22B: 12.9 and 39 billion of 46.7 and 141. arXiv 2412.19437:
/// 37 of 671; plain attention has 18.4 million more in each of 61 layers than latent attention.
TEST(Transformer, ATokenMeetsFewOfTheExperts) {
  const auto billions = [](uint64_t parameters) { return static_cast<double>(parameters) / 1e9; };
  const Transformer mixtral = *find_transformer("mixtral-8x7b");
  EXPECT_NEAR(billions(active_parameters(mixtral)), 12.9, 0.05);
  const Transformer large = *find_transformer("mixtral-8x22b");
  EXPECT_NEAR(billions(model_parameters(large)), 141, 0.5);
  EXPECT_NEAR(billions(active_parameters(large)), 39, 0.5);
  const Transformer deep = *find_transformer("deepseek-v3-like");
  const double more = 61 * (4.0 * 7168 * 7168 - 187'107'328) / 1e9;
  EXPECT_NEAR(billions(model_parameters(deep)) - more, 671.0, 0.05);
  // The paper leaves the embedding out.
  EXPECT_NEAR(billions(active_parameters(deep)) - more, 37, 0.7);
  const Transformer dense = *find_transformer("llama2-7b");
  EXPECT_EQ(active_parameters(dense), model_parameters(dense));
}

/// Two of eight experts and the router; DeepSeek's first layers are dense, and one expert has all tokens.
TEST(Transformer, FlopsOfExperts) {
  Transformer model = *find_transformer("mixtral-8x7b");
  const double s = 4096, h = 4096, f = 14336;
  const LayerFlops dense = layer_flops(model), flops = layer_flops(model, LayerKind::kExperts);
  EXPECT_EQ(dense.experts, 0);
  EXPECT_EQ(flops.experts, 2 * dense.matrices - 2 * 2 * s * h * h * 2.5);
  EXPECT_EQ(flops.matrices - flops.experts, 2 * s * (h * h * 2.5 + 8 * h));
  EXPECT_EQ(flops.keys, 2 * s * h * h * 1.5);
  EXPECT_EQ(flops.scores, dense.scores);
  model.expert_capacity = 1.25;
  EXPECT_EQ(layer_flops(model, LayerKind::kExperts).experts, 1.25 * flops.experts);
  EXPECT_EQ(flops.experts, 2 * 2 * s * 3 * h * f);
  const Transformer deep = *find_transformer("deepseek-v3-like");
  EXPECT_EQ(layer_kind(deep, 2), LayerKind::kDense);
  EXPECT_EQ(layer_kind(deep, 3), LayerKind::kExperts);
  const double all =
      3 * (layer_flops(deep).matrices + layer_flops(deep).scores) +
      58 * (layer_flops(deep, LayerKind::kExperts).matrices + layer_flops(deep).scores);
  EXPECT_NEAR(iteration_flops(deep, Recompute::kNone, 2) / (6 * (all + output_flops(deep))), 1,
              1e-12);
}

/// Devlin et al.: 340 million, with a pooler and types of tokens.
TEST(Transformer, BertLarge) {
  EXPECT_NEAR(static_cast<double>(model_parameters(*find_transformer("bert-large"))) / 1e6, 334, 1);
}

TEST(Transformer, GptsAreAsLargeAsTheirNamesSay) {
  for (const auto& [name, billions] : {std::pair{"gpt3-125m", 0.125},
                                       {"gpt3-350m", 0.35},
                                       {"gpt3-760m", 0.76},
                                       {"gpt3-1.3b", 1.3},
                                       {"gpt3-2.7b", 2.7},
                                       {"gpt3-6.7b", 6.7},
                                       {"gpt3-13b", 13.},
                                       {"gpt3-175b", 175.},
                                       {"megatron-22b", 22.},
                                       {"megatron-530b", 530.},
                                       {"megatron-1t", 1000.}}) {
    const double parameters = static_cast<double>(model_parameters(*find_transformer(name)));
    EXPECT_NEAR(parameters / 1e9 / billions, 1, 0.02) << name;
  }
}

TEST(Transformer, PresetsAreFoundByTheirNames) {
  EXPECT_EQ(transformer_presets().size(), 23u);
  for (const std::string_view name : transformer_presets()) {
    EXPECT_TRUE(find_transformer(name)) << name;
  }
  EXPECT_FALSE(find_transformer("llama2-71b"));
}

}  // namespace
}  // namespace understudy
