// Buckets of gradients: of networks by their published shapes as PyTorch fills them, and that every
// parameter of a stage is in one of them.
#include "collective_model/training/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace understudy {
namespace {

using Sizes = std::vector<uint64_t>;

constexpr uint64_t kMiB = uint64_t{1} << 20;

/// PyTorch's DistributedDataParallel: 1 MiB first, then 25 MiB, of fp32; in bytes.
Sizes torch_buckets(Sizes parameters) {
  std::ranges::reverse(parameters);
  std::vector<TrainedTensor> tensors;
  for (const uint64_t size : parameters) tensors.push_back({4 * size, 1});
  Sizes out;
  for (const GradientBucket& bucket : fill_buckets(tensors, kMiB, 25 * kMiB)) {
    out.push_back(bucket.parameters);
  }
  return out;
}

/// arXiv 1512.03385, table 1, in the order of torchvision's resnet.py.
Sizes resnet50() {
  Sizes out{64 * 3 * 7 * 7, 64, 64};
  uint64_t in = 64;
  const uint64_t blocks[] = {3, 4, 6, 3};
  for (uint64_t stage = 0; stage < 4; ++stage) {
    const uint64_t width = uint64_t{64} << stage;
    for (uint64_t block = 0; block < blocks[stage]; ++block) {
      const auto conv = [&](uint64_t from, uint64_t to, uint64_t kernel) {
        out.insert(out.end(), {from * to * kernel * kernel, to, to});
      };
      conv(in, width, 1);
      conv(width, width, 3);
      conv(width, 4 * width, 1);
      if (block == 0) conv(in, 4 * width, 1);
      in = 4 * width;
    }
  }
  out.insert(out.end(), {uint64_t{2048 * 1000}, 1000});
  return out;
}

/// arXiv 1810.04805, with its vocabulary padded to a multiple of 8, the pooler and the two outputs of
/// question answering; in the order of Hugging Face's modeling_bert.py.
Sizes bert_large() {
  const uint64_t h = 1024, wide = 4096;
  Sizes out{30528 * h, 512 * h, 2 * h, h, h};
  for (int layer = 0; layer < 24; ++layer) {
    for (int matrix = 0; matrix < 4; ++matrix) out.insert(out.end(), {h * h, h});
    out.insert(out.end(), {h, h, h * wide, wide, h * wide, h, h, h});
  }
  out.insert(out.end(), {h * h, h, 2 * h, 2});
  return out;
}

/// The all-reduces of a recorded run (mlcommons/chakra, tests/data, a trace of 2023-12).
TEST(Buckets, OfResNet50AreThoseOfARecordedRun) {
  const Sizes sizes = resnet50();
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}), 25'557'032U);
  EXPECT_EQ(torch_buckets(sizes),
            (Sizes{8'196'000, 31'502'336, 26'255'360, 26'550'272, 9'724'160}));
}

TEST(Buckets, OfBertLargeAreThirtyEight) {
  const Sizes sizes = bert_large();
  EXPECT_EQ(sizes.size(), 393U);
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}), 335'150'082U);
  const Sizes found = torch_buckets(sizes);
  ASSERT_EQ(found.size(), 38U);
  EXPECT_EQ(found[0], 4'206'600U);
  EXPECT_EQ(found[1], 33'583'104U);
  EXPECT_EQ(found[2], 33'591'296U);
  for (size_t i = 0; i < 11; ++i) {
    EXPECT_EQ(found[3 + 3 * i], 29'396'992U);
    EXPECT_EQ(found[4 + 3 * i], 37'781'504U);
    EXPECT_EQ(found[5 + 3 * i], 33'591'296U);
  }
  EXPECT_EQ(found[36], 29'396'992U);
  EXPECT_EQ(found[37], 131'354'624U);
}

TEST(Buckets, HoldEveryParameterOfAStageOnce) {
  for (const std::string_view name : transformer_presets()) {
    const Transformer model = *find_transformer(name);
    for (const uint32_t pp : {1u, 2u, 4u}) {
      for (const uint32_t chunks : {1u, 2u}) {
        Parallel parallel{.tp = 4, .pp = pp, .dp = 8, .chunks = chunks};
        if (model.layers % (pp * chunks) != 0 || model.heads % 4 != 0) continue;
        for (uint32_t stage = 0; stage < pp; ++stage) {
          uint64_t sum = 0;
          for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
            double ready = 0;
            for (const GradientBucket& b : chunk_buckets(model, parallel, stage, chunk, 0.1)) {
              sum += b.parameters;
              EXPECT_GE(b.ready, ready);
              ready = b.ready;
            }
            EXPECT_EQ(ready, 1);
          }
          EXPECT_EQ(sum, rank_parameters(model, parallel, stage)) << name << ", stage " << stage;
        }
      }
    }
  }
}

TEST(Buckets, AreFullByMegatronsRuleOrAsTold) {
  EXPECT_EQ(bucket_parameters({.dp = 8}), 40'000'000U);
  EXPECT_EQ(bucket_parameters({.dp = 64}), 64'000'000U);
  EXPECT_EQ(bucket_parameters({.dp = 64, .bucket = 7}), 7U);
  const Transformer model = *find_transformer("llama2-7b");
  Parallel parallel{.tp = 1, .pp = 2, .dp = 8};
  for (const GradientBucket& bucket : chunk_buckets(model, parallel, 0, 0, 0)) {
    EXPECT_TRUE(bucket.parameters >= 40'000'000 || bucket.ready == 1);
  }
  parallel.overlap_gradients = false;
  EXPECT_EQ(chunk_buckets(model, parallel, 0, 0, 0).size(), 1U);
  parallel.bucket = rank_parameters(model, parallel, 0) / 4;
  EXPECT_GT(chunk_buckets(model, parallel, 0, 0, 0).size(), 1U);
}

}  // namespace
}  // namespace understudy
