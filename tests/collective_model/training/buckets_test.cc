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

/// Experts have buckets of their own; all of a layer become ready at one moment, and a layer takes its part of
/// the FLOPs.
TEST(Buckets, OfExpertsStandApart) {
  Transformer model = *find_transformer("deepseek-v3-like");
  model.layers = 8;
  Parallel parallel{.pp = 2, .dp = 8, .ep = 4};
  parallel.bucket = 1;
  for (uint32_t stage = 0; stage < 2; ++stage) {
    uint64_t common = 0, experts = 0;
    double ready = 0;
    for (const GradientBucket& b : chunk_buckets(model, parallel, stage, 0, 0.1)) {
      (b.experts ? experts : common) += b.parameters;
      EXPECT_GE(b.ready, ready);
      ready = b.ready;
    }
    const HeldParameters held = held_parameters(model, parallel, stage);
    EXPECT_EQ(common, held.common);
    EXPECT_EQ(experts, held.experts);
    std::vector<GradientBucket> units = chunk_units(model, parallel, stage, 0, 0.1);
    uint64_t all = 0;
    for (const GradientBucket& unit : units) all += unit.parameters;
    EXPECT_EQ(all, held.all());
  }
  const auto shares = layer_shares(model, parallel, 0, 0, 0.1);
  ASSERT_EQ(shares.size(), 4U);
  EXPECT_EQ(shares[0].begin, 0.1);
  EXPECT_EQ(shares[3].end, 1);
  const LayerFlops dense = layer_flops(model), other = layer_flops(model, LayerKind::kExperts);
  EXPECT_NEAR((shares[0].end - shares[0].begin) / (shares[3].end - shares[3].begin),
              (other.matrices + other.scores) / (dense.matrices + dense.scores), 1e-9);
}

/// Mixtral: one and a half of 2.5 parts of attention's matrices, scores, two experts of three matrices.
TEST(PassShares, PartsOfALayer) {
  const Transformer model = *find_transformer("mixtral-8x7b");
  const double h = 4096, f = 14336, s = 4096, all = 2.5 * h * h + 8 * h + 6 * h * f + 2 * s * h;
  const LayerParts parts = layer_parts(model, LayerKind::kExperts);
  EXPECT_NEAR(parts.keys, 1.5 * h * h / all, 1e-12);
  EXPECT_NEAR(parts.scores, (1.5 * h * h + 2 * s * h) / all, 1e-12);
  EXPECT_NEAR(parts.experts, 1 - 6 * h * f / all, 1e-12);
  EXPECT_EQ(layer_parts(model, LayerKind::kDense).experts, 1);
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
