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
  Transformer model = *find_transformer("gpt3-13b");
  model.experts = 8;
  model.top_k = 2;
  model.expert_feed_forward = 20480;
  model.expert_capacity = 1.25;
  EXPECT_EQ(result->training->model, model);
  const Parallel expected{.tp = 4,
                          .pp = 4,
                          .dp = 8,
                          .ep = 4,
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
  EXPECT_EQ(result->training->gpu->layer, (GivenTimes{5e-3, 11e-3, 4.5e-3}));
  EXPECT_EQ(result->training->gpu->output, (GivenTimes{3e-3, 6e-3, 3e-3}));
  EXPECT_EQ(result->training->gpu->layer_optimizer, 150e-6);
}

std::string table_job(const std::string& gpu) {
  return with(
      "[model]\nlayers = 2\nhidden = 64\nheads = 4\nvocabulary = 128\nsequence = 32\n"
      "[parallel]\ntp = 2\nmicro_batch = 3\n[gpu]\npreset = \"a100\"\ntable = \"t\"\n" +
      gpu);
}

ConfigResult with_table(const std::string& table, const std::string& gpu = "") {
  return load_config_text(table_job(gpu), "f", [&](const std::string& path, size_t) {
    EXPECT_EQ(path, "t");
    return tl::expected<std::string, ConfigError>(table);
  });
}

/// 96 tokens of 64 values on two ranks: 7 rows forward, of which two stand twice.
constexpr const char* kOperators =
    "# mine\noperator,shape,type,time\n"
    "gemm,96,64,96,bf16,10us\ngemm,96,96,64,bf16,11us\ngemm,64,96,96,bf16,12us\n"
    "gemm,96,32,64,bf16,20us\ngemm,96,64,32,bf16,21us\ngemm,32,96,64,fp16,22us\n"
    "gemm,96,64,128,bf16,30us\ngemm,96,128,64,bf16,31us\ngemm,64,96,128,bf16,32us\n"
    "gemm,128,96,64,bf16,42us\n"
    "attention,3,2,2,32,16,bf16,100us\nattention_backward,3,2,2,32,16,bf16,200us\n"
    "norm,96,64,bf16,1us\nnorm_backward,96,64,bf16,2us\n"
    "add,96,64,bf16,3us\nadd_backward,96,64,bf16,4us\n"
    "activation,96,128,bf16,5us\nactivation_backward,96,128,bf16,6us\n"
    "norm,96,64,fp32,999us\n";
constexpr const char* kOutput =
    "gemm,96,64,64,bf16,50us\ngemm,64,96,64,bf16,52us\nloss,96,64,bf16,7us\n"
    "loss_backward,96,64,bf16,8us\n";

TEST(ConfigModel, ALayerTakesTheSumOfItsOperators) {
  const ConfigResult result = with_table(std::string(kOperators) + kOutput);
  ASSERT_TRUE(result) << describe(result.error());
  const TrainingGpu& gpu = *result->training->gpu;
  ASSERT_TRUE(gpu.layer && gpu.output);
  // The network: 30 us up, and down, whose shape is that of the gradient of what goes up.
  EXPECT_NEAR(gpu.layer->forward, (10 + 20 + 30 + 31 + 100 + 2 * (1 + 3) + 5) * 1e-6, 1e-12);
  EXPECT_NEAR(gpu.layer->weight_gradient, (12 + 22 + 32 + 42) * 1e-6, 1e-12);
  EXPECT_NEAR(gpu.layer->backward - gpu.layer->weight_gradient,
              (11 + 21 + 31 + 30 + 200 + 2 * (2 + 4) + 6) * 1e-6, 1e-12);
  EXPECT_NEAR(gpu.output->forward, (50 + 7) * 1e-6, 1e-12);
  EXPECT_NEAR(gpu.output->backward, (50 + 52 + 8) * 1e-6, 1e-12);
}

TEST(ConfigModel, OperatorsThatAreMissingAreNamed) {
  const auto errors = [](const std::string& table, const std::string& gpu = "") {
    const ConfigResult result = with_table(table, gpu);
    return result ? std::string() : describe(result.error());
  };
  EXPECT_EQ(errors(kOperators),
            "t: found no row of gemm,96,64,64,bf16: the job needs it\n"
            "t: found no row of loss,96,64,bf16: the job needs it\n"
            "t: found no row of loss_backward,96,64,bf16: the job needs it\n"
            "t: found no row of gemm,64,96,64,bf16: the job needs it\n");
  EXPECT_EQ(errors(kOperators, "output = { forward = \"1us\", backward = \"2us\" }\n"), "");
  EXPECT_NE(errors("operator,shape,type,time\ngemm,1,x,bf16,1us\n")
                .find("t:2: found \"x\": expected a whole"),
            std::string::npos);
  EXPECT_NE(errors("operator,shape,type,time\ngemm,1,2,bf16,1\n")
                .find("t:2: found \"1\": expected a duration"),
            std::string::npos);
  EXPECT_NE(errors("operator,shape,type,time\nnorm,1,2,bf16,1us\nnorm,1,2,fp16,1us\n")
                .find("t:3: found \"norm,1,2\": this operator has a time already"),
            std::string::npos);
  EXPECT_NE(errors("# nothing\n").find("t: the table is empty"), std::string::npos);
}

TEST(ConfigModel, AnAiobTableIsReadAsAicbDoes) {
  const std::string text =
      "train_iter:10\nEmb:\n    time_gpu_avg: 9\nlayernorm:\n    time_gpu_max: 84\n"
      "    time_gpu_avg: 70\natten_qkv:\n    time_gpu_avg: 889\nlayernorm2:\n    time_gpu_avg: 71\n"
      "mlp_gelu:\n    time_gpu_avg: 257\nlayernorm_post:\n    time_gpu_avg: 5\n"
      "logit_time:\n    time_gpu_avg: 1000\n";
  const ConfigResult result = with_table(text);
  ASSERT_TRUE(result) << describe(result.error());
  const TrainingGpu& gpu = *result->training->gpu;
  EXPECT_NEAR(gpu.layer->forward, 1287e-6, 1e-12);
  EXPECT_NEAR(gpu.layer->backward, 2 * 1287e-6, 1e-12);
  EXPECT_NEAR(gpu.layer->weight_gradient, 1287e-6, 1e-12);
  EXPECT_NEAR(gpu.output->backward, 2e-3, 1e-12);
  const ConfigResult none = with_table("Emb:\n    time_gpu_avg: 9\n");
  ASSERT_FALSE(none);
  EXPECT_EQ(describe(none.error()), "t: there is no time of attention (atten..)\n");
  const ConfigResult wrong = with_table("atten_qkv:\n    time_gpu_avg: x\n");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(describe(wrong.error()), "t:2: found \"x\": expected a time in microseconds\n");
}

TEST(ConfigModel, OperationsAreInPlaceOfNodes) {
  const ConfigResult result =
      load_config(UNDERSTUDY_TEST_DATA "/../../configs/training/by_hand.toml");
  ASSERT_TRUE(result) << describe(result.error());
  const TrainingConfig& config = *result->training;
  EXPECT_EQ(config.gpu->layer, (GivenTimes{3.4e-3, 6.9e-3, 0}));
  ASSERT_TRUE(config.gpu->output);
  EXPECT_NEAR(config.gpu->output->forward, 1437.2e-6, 1e-12);  // operators.csv
  EXPECT_FALSE(config.gpu->layer_optimizer);
  ASSERT_TRUE(config.operations);
  EXPECT_EQ(config.operations->tensor.rate, Rate::bits_per_second(1'880'000'000'000));
  EXPECT_EQ(config.operations->pipeline.latency, Duration::us(20));
  EXPECT_FALSE(config.operations->tensor.all_reduce);
  EXPECT_EQ(config.operations->data.all_reduce, 1.5);
  EXPECT_EQ(config.operations->data.all_gather, 0.75);
  EXPECT_EQ(config.operations->data.reduce_scatter, 0.75);
}

TEST(ConfigModel, Experts) {
  const Transformer deep =
      training("[model]\npreset = \"deepseek-v3-like\"\nlayers = 64\ndense_layers = 4\n").model;
  Transformer expected = *find_transformer("deepseek-v3-like");
  expected.layers = 64;
  expected.dense_layers = 4;
  EXPECT_EQ(deep, expected);
  const TrainingConfig own = training(
      "[model]\npreset = \"llama3-8b\"\nexperts = 16\ntop_k = 4\nshared_experts = 2\n"
      "[parallel]\ncp = 2\ndp = 4\nep = 8\n");
  expected = *find_transformer("llama3-8b");
  expected.experts = 16;
  expected.top_k = 4;
  expected.shared_experts = 2;
  expected.expert_feed_forward = 14336;
  EXPECT_EQ(own.model, expected);
  EXPECT_EQ(own.parallel, (Parallel{.dp = 4, .ep = 8, .cp = 2, .global_batch = 4}));
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
  const std::string mixtral = "[model]\npreset = \"mixtral-8x7b\"\n";
  const struct {
    std::string tables;
    const char* error;
  } cases[] = {
      {"[model]\npreset = \"llama2-70bb\"#!\n",
       "model.preset: found \"llama2-70bb\" (did you mean \"llama2-70b\"?)"},
      {"[model]#!\nlayers = 2\nhidden = 64\nheads = 4\nvocabulary = 128\n",
       "model.sequence: found nothing: the key is missing"},
      {model + "expert = 8#!\n", "model.expert: found an unknown key"},
      {model + "[parallel]\nsp = 2#!\n", "parallel.sp: found an unknown key (did you mean"},
      {"[model]#!\npreset = \"llama3-8b\"\nexperts = 8\n",
       "model.top_k: found nothing: the key is missing"},
      {model + "top_k = 2#!\n", "model.top_k: found 2: the model has no experts"},
      {mixtral + "top_k = 9#!\n", "model.top_k: found 9: a token has no more than the 8 experts"},
      {mixtral + "dense_layers = 33#!\n", "model.dense_layers: found 33: the model has 32 layers"},
      {mixtral + "expert_capacity = 0.5#!\n", "model.expert_capacity: found 0.5: expected places"},
      {model + "[parallel]\ndp = 2\nep = 2#!\n", "parallel.ep: found 2: the model has no experts"},
      {mixtral + "[parallel]\ndp = 16\nep = 16#!\n",
       "parallel.ep: found 16: it must divide experts, 8"},
      {mixtral + "[parallel]\ndp = 6\nep = 4#!\n", "parallel.ep: found 4: it must divide dp, 6"},
      {mixtral + "[parallel]\ndp = 3\ncp = 2\nep = 4#!\n",
       "parallel.ep: found 4: it must divide dp * cp, 6"},
      {mixtral + "[parallel]\ntp = 2#!\n",
       "parallel.tp: found 2: with experts it needs sequence_parallel = true"},
      {mixtral + "expert_feed_forward = 1001\n[parallel]\ntp = 2#!\nsequence_parallel = true\n",
       "parallel.tp: found 2: it must divide expert_feed_forward, 1001"},
      {model + "[parallel]\ncp = 3#!\n", "parallel.cp: found 3: it must divide sequence, 2048"},
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
      {model + "[gpu]\npreset = \"h100\"\nlayer = { forward = \"1ms\" }#!\n",
       "gpu.layer.backward: found nothing: the key is missing"},
      {model + "[gpu]\npreset = \"h100\"\noutput = { forward = \"1ms\", backward = \"2ms\", "
               "optimizer = \"1ms\" }#!\n",
       "gpu.output.optimizer: found an unknown key"},
      {model + "[gpu]\npreset = \"h100\"\nlayer = { forward = \"1ms\", backward = \"2ms\", "
               "weight_gradient = \"3ms\" }#!\n",
       "gpu.layer.weight_gradient: found \"3ms\": it is a part of backward, and not longer"},
      {model + "[parallel]\npp = 2\nschedule = \"zb-h1\"\nglobal_batch = 4\n[gpu]\n"
               "preset = \"h100\"\nlayer = { forward = \"1ms\", backward = \"2ms\" }#!\n",
       "gpu.layer.weight_gradient: found nothing: the key is missing: with schedule = \"zb-h1\""},
      {model + "[parallel]\npp = 2\n[operations]#!\ndata = { rate = \"1Gbit/s\" }\n",
       "operations.pipeline: found nothing: the key is missing"},
      {model + "[operations]\ndata = { latency = \"1us\" }#!\n",
       "operations.data.rate: found nothing: the key is missing"},
      {model + "[operations]\ndata = { rate = \"1Gbit/s\", all_reduce = 0 }#!\n",
       "operations.data.all_reduce: found 0: expected how many times an operation's bytes pass"},
      {model + "[operations]#!\n[[node]]\nname = \"n\"\nlink = { rate = \"1Gbit/s\", latency = "
               "\"1us\" }\n",
       "operations: found [operations] beside [[node]]s: it is in place of nodes"},
      {model + "[parallel]\ndp = 2\ncp = 2\n[operations]#!\ndata = { rate = \"1Gbit/s\" }\n",
       "operations.data: found cp = 2: operations of experts and of context parallelism"},
      {"[model]\npreset = \"deepseek-v3-like\"\n[gpu]\npreset = \"h100\"\n"
       "layer = { forward = \"1ms\", backward = \"2ms\" }#!\n",
       "gpu.layer: found one time of a layer: a model with dense_layers and experts"},
      {"[model]\npreset = \"mixtral-8x7b\"\n[gpu]\npreset = \"h100\"\ntable = \"t.csv\"#!\n",
       "gpu.table: found \"t.csv\": tables of operators are of dense layers"},
      {"[operations]#!\n", "operations: found [operations] without [model]"},
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
