// Memory of a GPU: values that papers give to the last digit, and llm-analysis' output.
#include "collective_model/training/memory.h"

#include <gtest/gtest.h>

#include "tests/collective_model/training/csv_rows.h"

namespace understudy {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

struct Published {
  const char* name;
  Transformer model;
  Parallel parallel;
};

Transformer gpt(uint32_t layers, uint32_t hidden, uint32_t heads) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_groups = heads,
          .feed_forward = 4 * hidden,
          .vocabulary = 51200,
          .sequence = 2048};
}

/// The models of arXiv 2205.05198, table 3.
std::vector<Published> published() {
  return {{"megatron-22B", gpt(48, 6144, 64), {.tp = 8, .micro_batch = 4, .global_batch = 4}},
          {"turing-530B",
           gpt(105, 20480, 128),
           {.tp = 8,
            .pp = 35,
            .chunks = 3,
            .global_batch = 280,
            .schedule = PipelineSchedule::kInterleaved}}};
}

TEST(TrainingMemory, IsThatOfThePapersFigureToTheLastDigit) {
  const std::vector<CsvRow> rows = csv_rows("workloads/published/seqsel_memory.csv");
  const std::vector<Published> cases = published();
  ASSERT_EQ(rows.size(), cases.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Transformer& model = cases[i].model;
    const Parallel& parallel = cases[i].parallel;
    SCOPED_TRACE(cases[i].name);
    ASSERT_EQ(rows[i].text("model"), cases[i].name);
    ASSERT_TRUE(misfits(model, parallel).empty());
    // The figure has the layers' matrices alone.
    const double matrices =
        static_cast<double>(layer_matrices(model)) * model.layers / (parallel.tp * parallel.pp);
    EXPECT_EQ(state_memory(matrices, parallel).all() / kGiB,
              rows[i].real("params_and_optimizer_GiB"));
    const double plain = stage_memory(model, parallel, 0).activations / kGiB;
    EXPECT_EQ(plain, rows[i].real("activations_tp_only_GiB"));
    Parallel divided = parallel;
    divided.sequence_parallel = true;
    divided.recompute = Recompute::kSelective;
    EXPECT_EQ(stage_memory(model, divided, 0).activations / kGiB,
              rows[i].real("activations_sp_selective_GiB"));
  }
}

/// arXiv 1910.02054, figure 1: 7.5e9 parameters on 64 GPUs, gradients of 2 bytes.
TEST(TrainingMemory, ZeroDividesWhatItsStageSays) {
  Parallel parallel{.dp = 64, .global_batch = 64, .gradient_bytes = 2};
  const double expected[] = {120, 31.40625, 16.640625, 1.875};
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    parallel.zero = stage;
    EXPECT_DOUBLE_EQ(state_memory(7.5e9, parallel).all() / 1e9, expected[stage]) << stage;
  }
}

/// Megatron's distributed optimizer: 6 + 12/d bytes a parameter with gradients of fp32.
TEST(TrainingMemory, TheDistributedOptimizerIsZerosFirstStage) {
  const Parallel parallel{.dp = 8, .global_batch = 8, .zero = 1};
  EXPECT_DOUBLE_EQ(state_memory(1e9, parallel).all(), (6 + 12.0 / 8) * 1e9);
}

TEST(TrainingMemory, AgreesWithLlmAnalysis) {
  constexpr double kShare = 1e-3;
  for (const CsvRow& row : csv_rows("workloads/llm_analysis/cases.csv")) {
    SCOPED_TRACE(row.text("model") + " zero " + row.text("zero"));
    Transformer model = gpt(row.number("layers"), row.number("hidden"), row.number("heads"));
    model.vocabulary = row.number("vocabulary");
    model.sequence = row.number("sequence");
    model.biases = model.positions = false;
    model.rms_norm = true;
    const std::string& again = row.text("recompute");
    Parallel parallel{.tp = row.number("tp"),
                      .pp = row.number("pp"),
                      .dp = row.number("dp"),
                      .micro_batch = row.number("micro_batch"),
                      .sequence_parallel = true,
                      .recompute = again == "full"        ? Recompute::kFull
                                   : again == "selective" ? Recompute::kSelective
                                                          : Recompute::kNone,
                      .zero = row.number("zero")};
    parallel.global_batch =
        uint64_t{parallel.micro_batch} * parallel.dp * row.number("micro_batches");
    ASSERT_TRUE(misfits(model, parallel).empty());

    EXPECT_EQ(static_cast<double>(model_parameters(model)), row.real("parameters"));
    double flops = iteration_flops(model, parallel.recompute, parallel.micro_batch);
    // It computes the logits again too.
    if (parallel.recompute == Recompute::kFull) flops += parallel.micro_batch * output_flops(model);
    EXPECT_NEAR(flops / row.real("flops_per_micro_batch"), 1, 1e-12);
    const StageMemory memory = stage_memory(model, parallel, 0);
    EXPECT_NEAR(memory.weights / row.real("weights"), 1, kShare);
    EXPECT_NEAR(memory.gradients / row.real("gradients"), 1, kShare);
    EXPECT_NEAR(memory.optimizer / row.real("optimizer"), 1, kShare);
    if (parallel.recompute == Recompute::kFull) {
      EXPECT_EQ(memory.activations, row.real("checkpoints"));
    }
  }
}

/// The embedding's copy, the last norm and the logits lie on the last stage only.
TEST(TrainingMemory, TheEndsHaveMoreThanTheStagesBetween) {
  const Transformer model = gpt(8, 1024, 16);
  const Parallel parallel{.tp = 2, .pp = 4, .global_batch = 8};
  const uint64_t layers = layer_parameters(model).of_rank(2) * 2;
  EXPECT_EQ(rank_parameters(model, parallel, 0), layers + 51200 * 1024 / 2 + 2048 * 1024);
  EXPECT_EQ(rank_parameters(model, parallel, 1), layers);
  EXPECT_EQ(rank_parameters(model, parallel, 3), layers + 51200 * 1024 / 2 + 2 * 1024);
  const double values = 2048.0 * 1024;
  // Four micro-batches' masks of dropout; one's input of the norm and of the output layer, and logits.
  EXPECT_EQ(stage_memory(model, parallel, 0).ends, 4 * values);
  EXPECT_EQ(stage_memory(model, parallel, 1).ends, 0);
  EXPECT_EQ(stage_memory(model, parallel, 3).ends, 4 * values + 4 * 2048.0 * 51200 / 2);
  EXPECT_EQ(stage_memory(model, parallel, 1).activations,
            3 * 2 * layer_activations(model, parallel));
}

/// Groups of keys keep less, a gated network a third more, and nothing keeps masks without dropout.
TEST(TrainingMemory, ActivationsOfALlama) {
  const Transformer model = *find_transformer("llama2-70b");
  Parallel parallel{.tp = 8, .recompute = Recompute::kSelective};
  const double sbh = 4096.0 * 8192;
  EXPECT_EQ(layer_activations(model, parallel),
            8 * sbh + 2 * sbh * (2 + 2.0 / 8) / 8 + 6 * 4096.0 * 28672 / 8);
  parallel.recompute = Recompute::kNone;
  EXPECT_EQ(
      layer_activations(model, parallel),
      8 * sbh + 2 * sbh * (2 + 2.0 / 8) / 8 + 6 * 4096.0 * 28672 / 8 + 2 * 64 * 4096.0 * 4096 / 8);
}

/// Mixtral 8x7B on 64 GPUs: an eighth of the experts on each, whose optimizer is divided over the four
/// replicas that have the same ones, that of the rest over 32.
TEST(TrainingMemory, ExpertsAreDividedTwice) {
  const Transformer model = *find_transformer("mixtral-8x7b");
  Parallel parallel{.tp = 2, .dp = 32, .ep = 8, .global_batch = 32, .sequence_parallel = true};
  ASSERT_TRUE(misfits(model, parallel).empty());
  const double experts = 32.0 * 8 * 3 * 4096 * 14336 / 2 / 8;
  const HeldParameters held = held_parameters(model, parallel, 0);
  EXPECT_EQ(static_cast<double>(held.experts), experts);
  const double common =
      32.0 * (4096.0 * 4096 * 2.5 / 2 + 2 * 4096 + 8 * 4096) + 2.0 * 32000 * 4096 / 2 + 4096;
  EXPECT_EQ(static_cast<double>(held.common), common);
  EXPECT_EQ(rank_parameters(model, parallel, 0), held.all());
  EXPECT_EQ(stage_memory(model, parallel, 0).optimizer, 12 * (experts + common));
  parallel.zero = 1;
  const StageMemory memory = stage_memory(model, parallel, 0);
  EXPECT_EQ(memory.optimizer, 12 * (experts / 4 + common / 32));
  EXPECT_EQ(memory.gradients, 4 * (experts + common));
  // A token's values twice, in as many experts; their inputs are whole, what comes out is not.
  const double sbh = 4096.0 * 4096, f = 14336.0 / 4096;
  parallel.recompute = Recompute::kSelective;
  EXPECT_EQ(
      layer_activations(model, parallel, LayerKind::kExperts),
      sbh * (8 + 2 * (2 + 0.5)) / 2 + 2 * sbh * 6 * f / 2 + 2 * sbh * 2 * 1.5 + 4096.0 * 8 * 4 / 2);
  parallel.ep = 1;
  EXPECT_EQ(held_parameters(model, parallel, 0).experts, 0U);
  EXPECT_EQ(static_cast<double>(rank_parameters(model, parallel, 0)), common + 8 * experts);
}

/// Two stages of two chunks of DeepSeek's kind: dense layers 0 to 2 of 8 lie in the first chunks.
TEST(TrainingMemory, StagesMayHaveUnlikeLayers) {
  Transformer model = *find_transformer("deepseek-v3-like");
  model.layers = 8;
  const Parallel parallel{.pp = 2,
                          .dp = 4,
                          .ep = 4,
                          .chunks = 2,
                          .global_batch = 16,
                          .schedule = PipelineSchedule::kInterleaved};
  ASSERT_TRUE(misfits(model, parallel).empty());
  EXPECT_EQ(dense_chunk_layers(model, parallel, 0, 0), 2U);
  EXPECT_EQ(dense_chunk_layers(model, parallel, 1, 0), 1U);
  EXPECT_EQ(dense_chunk_layers(model, parallel, 0, 1), 0U);
  EXPECT_EQ(held_layers(model, parallel, 0).experts, 2 * 64 * expert_parameters(model));
  EXPECT_EQ(held_layers(model, parallel, 1).experts, 3 * 64 * expert_parameters(model));
  uint64_t all = 0;
  for (uint32_t stage = 0; stage < 2; ++stage) {
    const HeldParameters held = held_parameters(model, parallel, stage);
    all += held.common + 4 * held.experts;
  }
  EXPECT_EQ(all, model_parameters(model));
  // The last stage has two micro-batches of its first chunk in flight when the second one takes one, and later
  // three of the first.
  const double dense = layer_activations(model, parallel),
               experts = layer_activations(model, parallel, LayerKind::kExperts);
  EXPECT_EQ(stage_memory(model, parallel, 1).activations, 2 * (dense + experts) + 2 * experts);
}

/// Tokens are divided; keys and values of two other ranks are there for a moment.
TEST(TrainingMemory, ContextParallelismDividesTokens) {
  Transformer model = *find_transformer("llama3-8b");
  model.fused_attention = true;
  Parallel parallel{.tp = 2, .recompute = Recompute::kNone};
  const StageMemory one = stage_memory(model, parallel, 0);
  parallel.cp = 4;
  const StageMemory four = stage_memory(model, parallel, 0);
  EXPECT_EQ(four.activations, one.activations / 4);
  EXPECT_EQ(four.ends, one.ends / 4);
  EXPECT_EQ(four.weights, one.weights);
  EXPECT_EQ(four.working, 2 * 2 * 2 * 8192.0 / 4 * 1024 / 2);
  parallel.zero = 1;
  EXPECT_EQ(stage_memory(model, parallel, 0).optimizer, one.optimizer / 4);
}

TEST(TrainingMemory, WhatExistsForAMoment) {
  const Transformer model = gpt(8, 1024, 16);
  Parallel parallel{.dp = 4, .global_batch = 4};
  EXPECT_EQ(stage_memory(model, parallel, 0).working, 0);
  const double all = layer_activations(model, parallel);
  parallel.recompute = Recompute::kFull;
  EXPECT_EQ(stage_memory(model, parallel, 0).working, all);
  parallel.recompute = Recompute::kSelective;
  EXPECT_EQ(stage_memory(model, parallel, 0).working, all - layer_activations(model, parallel));
  parallel.recompute = Recompute::kNone;
  parallel.zero = 3;
  EXPECT_EQ(stage_memory(model, parallel, 0).working,
            2 * 2 * static_cast<double>(layer_parameters(model).all()));
}

}  // namespace
}  // namespace understudy
