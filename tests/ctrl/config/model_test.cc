// [model], [parallel] and [gpu]: what is read, and what is refused with its line.
#include <gtest/gtest.h>

#include "tests/ctrl/config/cases.h"

namespace understudy {
namespace {

std::string with(const std::string& tables) { return "format = 1\n" + tables; }

TrainingConfig training(const std::string& tables) {
  const ConfigResult result = load_config_text(with(tables), "f");
  if (!result) {
    ADD_FAILURE() << describe(result.error());
    return {};
  }
  return result->training.value();
}

TEST(ConfigModel, APresetIsAllThatIsNeeded) {
  const TrainingConfig config = training("[model]\npreset = \"llama2-70b\"\n");
  EXPECT_EQ(config.model, *find_transformer("llama2-70b"));
  EXPECT_EQ(config.parallel, Parallel());
  EXPECT_FALSE(config.gpu);
  EXPECT_EQ(config.line, 2u);
}

TEST(ConfigModel, KeysAreInsteadOfWhatThePresetSays) {
  const TrainingConfig config =
      training("[model]\npreset = \"llama2-70b\"\nlayers = 40\nsequence = 8192\nbiases = true\n");
  Transformer expected = *find_transformer("llama2-70b");
  expected.layers = 40;
  expected.sequence = 8192;
  expected.biases = true;
  EXPECT_EQ(config.model, expected);
}

TEST(ConfigModel, AShapeOfItsOwnIsAGptUnlessItSaysOtherwise) {
  const std::string shape =
      "[model]\nlayers = 40\nhidden = 5120\nheads = 40\nvocabulary = 51200\nsequence = 2048\n";
  EXPECT_EQ(training(shape).model, *find_transformer("gpt3-13b"));
  const Transformer other =
      training(shape +
               "kv_groups = 8\nfeed_forward = 13824\ngated = true\ntied_embeddings = false\n"
               "biases = false\npositions = false\nnorm = \"rms\"\ndropout = false\n")
          .model;
  const Transformer expected{.layers = 40,
                             .hidden = 5120,
                             .heads = 40,
                             .kv_groups = 8,
                             .feed_forward = 13824,
                             .gated = true,
                             .vocabulary = 51200,
                             .sequence = 2048,
                             .tied_embeddings = false,
                             .biases = false,
                             .positions = false,
                             .rms_norm = true,
                             .dropout = false};
  EXPECT_EQ(other, expected);
}

TEST(ConfigModel, TheReferenceShowsEveryKey) {
  const ConfigResult result =
      load_config(UNDERSTUDY_TEST_DATA "/../../configs/training/reference.toml");
  ASSERT_TRUE(result) << describe(result.error());
  EXPECT_EQ(result->training->model, *find_transformer("gpt3-13b"));
  const Parallel expected{.tp = 4,
                          .pp = 4,
                          .dp = 8,
                          .chunks = 2,
                          .micro_batch = 1,
                          .global_batch = 256,
                          .schedule = PipelineSchedule::kInterleaved,
                          .sequence_parallel = true,
                          .recompute = Recompute::kSelective,
                          .zero = 1,
                          .gradient_bytes = 4,
                          .bucket = 40'000'000};
  EXPECT_EQ(result->training->parallel, expected);
  EXPECT_EQ(result->training->iterations, 1U);
  EXPECT_EQ(result->training->sender.traffic_class, 106);
  EXPECT_EQ(result->training->slow, (std::vector<std::pair<NodeId, double>>{{3, 1.2}}));
  ASSERT_TRUE(result->training->gpu);
  EXPECT_EQ(result->training->gpu->flops, 312e12);
  EXPECT_EQ(result->training->gpu->memory, uint64_t{80} << 30);
  EXPECT_DOUBLE_EQ(result->training->gpu->memory_bandwidth, 2.039e12);
  EXPECT_EQ(result->training->gpu->efficiency, 0.6);
  EXPECT_EQ(result->training->gpu->memory_efficiency, 0.75);
}

TEST(ConfigModel, AGpuOfItsOwn) {
  const TrainingConfig config = training(
      "[model]\npreset = \"gpt3-125m\"\n[gpu]\nflops = \"1.5PFLOP/s\"\nmemory = \"192GB\"\n"
      "memory_bandwidth = \"8TB/s\"\n");
  ASSERT_TRUE(config.gpu);
  EXPECT_EQ(config.gpu->flops, 1.5e15);
  EXPECT_EQ(config.gpu->memory, 192'000'000'000u);
  EXPECT_EQ(config.gpu->memory_bandwidth, 8e12);
  EXPECT_EQ(config.gpu->efficiency, 0.67);
  EXPECT_EQ(config.gpu->memory_efficiency, 0.8);
}

TEST(ConfigModel, WhatIsRefused) {
  const std::string model = "[model]\npreset = \"gpt3-175b\"\n";
  const struct {
    std::string tables;
    const char* error;
  } cases[] = {
      {"[model]\npreset = \"llama2-70bb\"#!\n",
       "model.preset: found \"llama2-70bb\" (did you mean \"llama2-70b\"?)"},
      {"[model]#!\nlayers = 2\nhidden = 64\nheads = 4\nvocabulary = 128\n",
       "model.sequence: found nothing: the key is missing"},
      {model + "expert = 8#!\n", "model.expert: found an unknown key"},
      {model + "[parallel]\ncp = 2#!\n", "parallel.cp: found an unknown key (did you mean"},
      {model + "[parallel]\nzero = 4#!\n",
       "parallel.zero: found 4: expected an integer from 0 to 3"},
      {model + "[parallel]\nschedule = \"1f1\"#!\n",
       "parallel.schedule: found \"1f1\" (did you mean \"1f1b\"?)"},
      {model + "[parallel]\ntp = 64#!\n", "parallel.tp: found 64: it must divide heads, 96"},
      {"[model]\npreset = \"llama2-70b\"\n[parallel]\ntp = 16#!\n",
       "parallel.tp: found 16: it must divide kv_groups, 8"},
      {model + "vocabulary = 50257\n[parallel]\ntp = 8#!\n",
       "parallel.tp: found 8: it must divide vocabulary, 50257; frameworks pad it, here to 50264"},
      {model + "feed_forward = 4097\n[parallel]\ntp = 2#!\n",
       "parallel.tp: found 2: it must divide feed_forward, 4097"},
      {model + "sequence = 2047\n[parallel]\nsequence_parallel = true\ntp = 2#!\n",
       "parallel.tp: found 2: it must divide sequence, with sequence_parallel, 2047"},
      {model + "[parallel]\npp = 7#!\n", "parallel.pp: found 7: it must divide layers, 96"},
      {model + "[parallel]\npp = 8#!\nchunks = 5\nglobal_batch = 8\nschedule = \"interleaved\"\n",
       "parallel.pp: found 40: it must divide layers; it is times chunks, 96"},
      {model + "[parallel]\ndp = 8\nmicro_batch = 2\nglobal_batch = 100#!\n",
       "parallel.global_batch: found 100: it must be a multiple of micro_batch * dp, 16"},
      {model + "[parallel]\npp = 4\nchunks = 2#!\n", "parallel.chunks: found 2: "},
      {model + "[parallel]\npp = 4\nchunks = 2\nschedule = \"interleaved\"\nglobal_batch = 6#!\n",
       "parallel.global_batch: found 6: "},
      {model + "heads = 100#!\n", "model.heads: found 100: it must divide hidden, 12288"},
      {model + "kv_groups = 36#!\n", "model.kv_groups: found 36: it must divide heads, 96"},
      {model + "[gpu]\npreset = \"h10\"#!\n", "gpu.preset: found \"h10\" (did you mean \"h100\"?)"},
      {model + "[gpu]\npreset = \"h100\"\nflops = \"989Tflops\"#!\n",
       "gpu.flops: found \"989Tflops\": expected a number with its unit in quotes, as in "
       "\"989TFLOP/s\"; units are GFLOP/s, TFLOP/s, PFLOP/s"},
      {model + "[gpu]\npreset = \"h100\"\nmemory_bandwidth = \"-1TB/s\"#!\n",
       "gpu.memory_bandwidth: found \"-1TB/s\""},
      {model + "[gpu]\npreset = \"h100\"\nefficiency = 1.2#!\n",
       "gpu.efficiency: found 1.2: expected a share of flops, from 0.001 to 1"},
      {"[parallel]#!\ntp = 2\n", "parallel: found [parallel] without [model]"},
      {"[gpu]#!\npreset = \"h100\"\n", "gpu: found [gpu] without [model]"},
  };
  for (const auto& [tables, error] : cases) {
    SCOPED_TRACE(tables);
    const std::string text = with(tables);
    const ConfigResult result = load_config_text(text, "f");
    ASSERT_FALSE(result);
    ASSERT_EQ(result.error().size(), 1u) << describe(result.error());
    EXPECT_EQ(result.error()[0].line, marked_line(text)) << describe(result.error());
    EXPECT_NE(result.error()[0].text().find(error), std::string::npos) << describe(result.error());
  }
}

}  // namespace
}  // namespace understudy
