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
      {"llama2-7b", 6'738'415'616},   {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192}, {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496}, {"llama3-405b", 405'853'388'800},
  };
  for (const auto& [name, parameters] : models) {
    EXPECT_EQ(model_parameters(*find_transformer(name)), parameters) << name;
  }
}

TEST(Transformer, GptsAreAsLargeAsTheirNamesSay) {
  for (const auto& [name, billions] : {std::pair{"gpt3-125m", 0.125},
                                       {"gpt3-350m", 0.35},
                                       {"gpt3-760m", 0.76},
                                       {"gpt3-2.7b", 2.7},
                                       {"gpt3-6.7b", 6.7},
                                       {"gpt3-13b", 13.},
                                       {"gpt3-175b", 175.}}) {
    const double parameters = static_cast<double>(model_parameters(*find_transformer(name)));
    EXPECT_NEAR(parameters / 1e9 / billions, 1, 0.02) << name;
  }
}

TEST(Transformer, PresetsAreFoundByTheirNames) {
  EXPECT_EQ(transformer_presets().size(), 13u);
  for (const std::string_view name : transformer_presets()) {
    EXPECT_TRUE(find_transformer(name)) << name;
  }
  EXPECT_FALSE(find_transformer("llama2-71b"));
}

}  // namespace
}  // namespace understudy
