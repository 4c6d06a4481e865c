// Buckets of gradients: that every parameter of a stage is in one of them, and how full they are.
#include "collective_model/training/buckets.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

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
