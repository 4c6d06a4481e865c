// How long an iteration computes: rooflines by hand, and the pipeline's bubble.
#include "collective_model/training/compute_time.h"

#include <gtest/gtest.h>

#include "collective_model/training/memory.h"

namespace understudy {
namespace {

/// Memory is never what a layer waits for.
constexpr TrainingGpu kFastMemory{
    .flops = 1e14, .memory = uint64_t{80} << 30, .memory_bandwidth = 1e18, .efficiency = 0.5};

Transformer gpt(uint32_t layers, uint32_t hidden) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = 16,
          .kv_groups = 16,
          .feed_forward = 4 * hidden,
          .vocabulary = 1,
          .sequence = 1024};
}

TEST(TrainingTime, IsTheFlopsAtTheRateThatMatricesReach) {
  const Transformer model = gpt(8, 2048);
  for (const auto recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const Parallel parallel{.dp = 2, .global_batch = 8, .recompute = recompute};
    const auto time = compute_time(model, parallel, kFastMemory);
    ASSERT_TRUE(time);
    const double seconds = iteration_flops(model, recompute, 8) / 2 / (1e14 * 0.5);
    EXPECT_NEAR(time->pipeline.seconds() / seconds, 1, 1e-6);
    EXPECT_EQ(time->bubble, 0);
    EXPECT_EQ(time->busiest, time->pipeline);
  }
}

TEST(TrainingTime, TensorParallelismDividesIt) {
  const Transformer model = gpt(8, 2048);
  const auto one = compute_time(model, {}, kFastMemory);
  const Parallel parallel{.tp = 1};
  EXPECT_EQ(compute_time(model, parallel, kFastMemory)->pipeline, one->pipeline);
  Transformer even = model;
  even.vocabulary = 8;
  const double whole = compute_time(even, {}, kFastMemory)->pipeline.seconds();
  const double divided = compute_time(even, {.tp = 8}, kFastMemory)->pipeline.seconds();
  EXPECT_NEAR(whole / divided, 8, 1e-4);
}

/// Stages alike but for the logits, of which there is one: arXiv 2104.04473, section 2.2: of the whole
/// (p - 1)/(m + p - 1), with v chunks (p - 1)/(vm + p - 1).
TEST(TrainingTime, TheBubbleIsThatOfTheClosedForm) {
  const Transformer model = gpt(16, 2048);
  Parallel parallel{.pp = 4, .global_batch = 12};
  EXPECT_NEAR(compute_time(model, parallel, kFastMemory)->bubble, 3.0 / 15, 1e-5);
  parallel.schedule = PipelineSchedule::kGpipe;
  EXPECT_NEAR(compute_time(model, parallel, kFastMemory)->bubble, 3.0 / 15, 1e-5);
  parallel.schedule = PipelineSchedule::kInterleaved;
  parallel.chunks = 2;
  EXPECT_NEAR(compute_time(model, parallel, kFastMemory)->bubble, 3.0 / 27, 1e-5);
}

/// A stage with logits makes the others wait.
TEST(TrainingTime, TheLastStageHasTheLogits) {
  Transformer model = gpt(16, 2048);
  const Parallel parallel{.pp = 4, .global_batch = 12};
  const auto without = compute_time(model, parallel, kFastMemory);
  model.vocabulary = 32000;
  const auto with = compute_time(model, parallel, kFastMemory);
  const double logits = 12 * 3 * output_flops(model) / (1e14 * 0.5);
  EXPECT_NEAR((with->busiest - without->busiest).seconds() / logits, 1, 1e-3);
  EXPECT_GT(with->bubble, without->bubble);
}

/// The bytes by hand: weights and what is kept, once forward; values, with their scores, twice at half the
/// memory's rate.
TEST(TrainingTime, SlowMemoryIsWhatALayerWaitsFor) {
  const Transformer model = gpt(2, 1024);
  TrainingGpu gpu = kFastMemory;
  gpu.flops = 1e30;
  gpu.memory_bandwidth = 1e12;
  gpu.memory_efficiency = 0.5;
  const double parameters = 12.0 * 1024 * 1024 + 13 * 1024, kept = 34.0 * 1024 * 1024;
  const ChunkSeconds chunk = chunk_seconds(model, {.recompute = Recompute::kSelective}, gpu, 0, 0);
  const double logits = 4 * 1024, words = 1024, scores = 5.0 * 1024 * 1024 * 16;
  const double values = 2 * (kept + scores) / 0.5;
  EXPECT_NEAR(chunk.forward, (2 * (2 * parameters + kept + values) + 2 * words + logits) / 1e12,
              1e-12);
  const double again = 2 * scores / 0.5;
  EXPECT_NEAR(chunk.backward,
              (2 * (2 * parameters + 2 * kept + 2 * values + again) + 2 * words + logits) / 1e12,
              1e-12);
  EXPECT_NEAR(chunk.weight_gradient, (2 * (kept + 4 * parameters) + logits + 4 * words) / 1e12,
              1e-12);
}

/// It keeps no scores, does half of their products, and one of five once more on the way back.
TEST(TrainingTime, FusedAttentionHasNoScoresInMemory) {
  Transformer model = gpt(2, 1024);
  model.fused_attention = true;
  EXPECT_EQ(layer_values(model, {}).scores, 0);
  EXPECT_EQ(layer_activations(model, {}),
            layer_activations(model, {.recompute = Recompute::kSelective}));
  const LayerFlops flops = layer_flops(model);
  const ChunkSeconds chunk = layer_seconds(model, {}, kFastMemory, 0, 0);
  EXPECT_NEAR(chunk.forward, 2 * (flops.matrices + flops.scores / 2) / 5e13, 1e-9);
  EXPECT_NEAR(chunk.backward, 2 * (flops.matrices + 2.5 * flops.scores / 2) / 5e13, 1e-9);
  EXPECT_NEAR(iteration_flops(model, Recompute::kNone, 1),
              2 * (3 * flops.matrices + 3.5 * flops.scores / 2) + 3 * output_flops(model), 1e6);
}

/// 4 bytes of gradient, 12 of states read and written, 2 of weights.
TEST(TrainingTime, TheOptimizerMovesEveryParametersBytes) {
  const Transformer model = gpt(8, 2048);
  TrainingGpu gpu = kFastMemory;
  gpu.memory_bandwidth = 2e12;
  const double all = static_cast<double>(model_parameters(model));
  EXPECT_DOUBLE_EQ(optimizer_seconds(model, {}, gpu, 0), all * 30 / 2e12);
  const Parallel divided{.dp = 4, .global_batch = 4, .zero = 1};
  EXPECT_DOUBLE_EQ(optimizer_seconds(model, divided, gpu, 0), all * 30 / 2e12 / 4);
}

TEST(TrainingTime, LongerThanTimesCanSayIsAnError) {
  TrainingGpu gpu = kFastMemory;
  gpu.flops = 1e6;
  const auto time = compute_time(gpt(1000, 65536), {.global_batch = 1000}, gpu);
  ASSERT_FALSE(time);
  EXPECT_NE(time.error().text.find("46 days"), std::string::npos) << time.error().text;
}

TEST(TrainingTime, GpusAreFoundByTheirNames) {
  EXPECT_EQ(find_gpu("h100")->flops, 989e12);
  EXPECT_EQ(find_gpu("a100")->flops, 312e12);
  EXPECT_FALSE(find_gpu("h101"));
}

/// 8 layers on 2 stages, 12 micro-batches: the stage with the output layer is the slower one.
TEST(TrainingTime, GivenTimesAreInsteadOfTheRoofline) {
  const Transformer model = gpt(8, 2048);
  const Parallel parallel{.pp = 2, .global_batch = 12};
  TrainingGpu gpu = kFastMemory;
  gpu.layer = GivenTimes{1e-3, 3e-3, 1e-3};
  gpu.output = GivenTimes{0.5e-3, 1.5e-3, 0};
  gpu.layer_optimizer = 2e-3;
  const ChunkSeconds layers = layer_seconds(model, parallel, gpu, 0, 0);
  EXPECT_DOUBLE_EQ(layers.forward, 4e-3);
  EXPECT_DOUBLE_EQ(layers.backward, 8e-3);
  EXPECT_DOUBLE_EQ(layers.weight_gradient, 4e-3);
  const ChunkSeconds last = chunk_seconds(model, parallel, gpu, 1, 0);
  EXPECT_DOUBLE_EQ(last.forward, 4.5e-3);
  EXPECT_DOUBLE_EQ(last.backward, 9.5e-3);
  const auto time = compute_time(model, parallel, gpu);
  ASSERT_TRUE(time);
  EXPECT_EQ(time->busiest, Duration::us(12 * (4500 + 9500 + 4000)));
  // The embedding's step is by its bytes, which this memory moves in no time.
  EXPECT_NEAR(time->optimizer.seconds(), 4 * 2e-3, 1e-9);
}

TEST(TrainingTime, LayersAloneHaveNoOutputLayer) {
  Transformer model = gpt(8, 2048);
  model.vocabulary = 0;
  const Parallel parallel{.pp = 4, .global_batch = 12};
  const auto time = compute_time(model, parallel, kFastMemory);
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(time->bubble, 3.0 / 15);
  EXPECT_DOUBLE_EQ(chunk_seconds(model, parallel, kFastMemory, 3, 0).forward,
                   layer_seconds(model, parallel, kFastMemory, 3, 0).forward);
}

}  // namespace
}  // namespace understudy
