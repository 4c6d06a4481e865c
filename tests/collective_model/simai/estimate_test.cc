// SimAI's estimate of an iteration: what counts as what.
#include "collective_model/simai/estimate.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

SimaiCluster cluster() {
  SimaiCluster cluster;
  cluster.nvlink = 100;
  cluster.nic = 25;
  return cluster;
}

/// 4 tensor ranks on a node: all-reduces of 1 GiB take 15 ms.
SimaiLayer layer(const std::string& name) {
  SimaiLayer layer{.name = name,
                   .forward = {1000, SimaiCollective::kAllReduce, SimaiGroup::kTensor, kGiB},
                   .input_gradient = {2000, SimaiCollective::kNone, SimaiGroup::kTensor, 0},
                   .weight_gradient = {4000, SimaiCollective::kNone, SimaiGroup::kData, 0}};
  return layer;
}

TEST(SimaiEstimate, SumsLayersAndTheBubble) {
  SimaiWorkload workload{{.tp = 4, .pp = 3, .vpp = 2, .ga = 5, .gpus = 24}, {}};
  workload.layers = {layer("embedding_layer"), layer("attention_layer")};
  workload.layers[1].weight_gradient = {4000, SimaiCollective::kReduceScatter, SimaiGroup::kData,
                                        kGiB};
  const SimaiEstimate estimate = simai_estimate(workload, cluster()).value();
  EXPECT_DOUBLE_EQ(estimate.compute_us, 14);
  EXPECT_NEAR(estimate.tp_us, 30'000, 0.01);
  // DP 2: two nodes with 2 GPUs and 2 NICs each, 50 GB/s.
  EXPECT_NEAR(estimate.dp_us, 10'000, 0.01);
  // The embedding is not in it, data parallelism is not either: (7 + 15000) * 2 / (5 * 2).
  EXPECT_NEAR(estimate.bubble_us, 3001.4, 0.01);
  EXPECT_EQ(estimate.pp_us, 0);
  EXPECT_NEAR(estimate.total_us(), 14 + 30'000 + 10'000 + 3001.4, 0.02);
  ASSERT_EQ(estimate.layers.size(), 2u);
  EXPECT_EQ(estimate.layers[1].weight_gradient, 10'000'000);
}

TEST(SimaiEstimate, TheForwardSaysWhetherALayerIsOfExperts) {
  SimaiWorkload workload{{.tp = 2, .ep = 2, .gpus = 8}, {layer("mlp_moelayer")}};
  SimaiLayer& experts = workload.layers[0];
  experts.forward.group = SimaiGroup::kExpert;
  experts.input_gradient = experts.forward;
  experts.input_gradient.group = SimaiGroup::kTensor;
  experts.weight_gradient = {0, SimaiCollective::kAllGather, SimaiGroup::kExpertData, kGiB};
  const SimaiEstimate estimate = simai_estimate(workload, cluster()).value();
  EXPECT_NEAR(estimate.ep_us, 20'000, 0.01);
  EXPECT_EQ(estimate.tp_us, 0);
  EXPECT_GT(estimate.dp_ep_us, 0);
  EXPECT_EQ(estimate.dp_us, 0);
}

TEST(SimaiEstimate, OverlapsHideAndPipelineMessagesAppear) {
  SimaiWorkload workload{{.tp = 4, .pp = 2, .vpp = 2, .ga = 5, .gpus = 8, .pp_bytes = 1U << 30},
                         {layer("attention_layer")}};
  SimaiCluster hiding = cluster();
  hiding.tp_overlap = 0.75F;
  hiding.pp_overlap = 0.5F;
  const SimaiEstimate estimate = simai_estimate(workload, hiding).value();
  EXPECT_NEAR(estimate.tp_us, 3750, 0.01);
  EXPECT_NEAR(estimate.bubble_us, 15'007.0 / 10, 0.01);  // not hidden
  // 2 * 2 * 5 * (1 GiB / 0.5) in ns / 1000, of which half shows: SimAI's rule has no bandwidth.
  EXPECT_NEAR(estimate.pp_us, 20 * 2e9 / 1000 / 2, 1);
}

TEST(SimaiEstimate, CountsWhatTakesNoTimeAndNamesWhatFails) {
  SimaiWorkload workload{{.tp = 1, .gpus = 3}, {layer("norm"), layer("mlp"), layer("loss")}};
  workload.layers[1].forward = {0, SimaiCollective::kBroadcast, SimaiGroup::kTensor, kGiB};
  workload.layers[2].forward.collective = SimaiCollective::kNone;
  workload.layers[2].weight_gradient = {0, SimaiCollective::kAllReduce, SimaiGroup::kData, 4};
  const SimaiEstimate estimate = simai_estimate(workload, cluster()).value();
  EXPECT_EQ(estimate.lone_tensor, 1u);
  EXPECT_EQ(estimate.broadcasts, 1u);
  EXPECT_EQ(estimate.small, 1u);
  EXPECT_EQ(estimate.exposed_us(), 0);
  SimaiCluster none = cluster();
  none.nics_per_node = 1;
  workload.parallel = {.tp = 2, .gpus = 4};
  workload.layers[2].weight_gradient.bytes = kGiB;
  const auto failed = simai_estimate(workload, none);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().text.find("layer 3 (loss): the collective of its weight gradient has"),
            0u)
      << failed.error().text;
}

}  // namespace
}  // namespace understudy
