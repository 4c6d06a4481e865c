// SimAI's time of one collective against values worked out by hand from its rules.
#include "collective_model/simai/collective_time.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

SimaiCluster cluster_of(float nvlink, float nic) {
  SimaiCluster cluster;
  cluster.nvlink = nvlink;
  cluster.nic = nic;
  return cluster;
}

SimaiPass pass_of(SimaiCollective collective, SimaiGroup group, uint64_t bytes) {
  return {.collective = collective, .group = group, .bytes = bytes};
}

double ns(const SimaiPass& pass, uint32_t ranks, const SimaiParallel& parallel,
          const SimaiCluster& cluster) {
  const auto time = simai_time(pass, ranks, parallel, cluster);
  EXPECT_TRUE(time) << (time ? "" : time.error().text);
  return time ? time->ns : -1;
}

TEST(SimaiBandwidth, OneNodeHasNvlinkAndSeveralTheSlower) {
  const SimaiCluster cluster = cluster_of(200, 25);
  const auto rate = [&](SimaiPlaces places) {
    return simai_bandwidth(SimaiCollective::kAllReduce, places, cluster).rate;
  };
  EXPECT_EQ(rate({1, 8, 8}), 200);
  EXPECT_EQ(rate({4, 1, 2}), 50);
  EXPECT_EQ(rate({4, 4, 4}), 100);
  EXPECT_FALSE(simai_bandwidth(SimaiCollective::kAllGather, {4, 4, 4}, cluster).nvlink);
}

TEST(SimaiBandwidth, FastNicsMakeNvlinkTheSlowerOneAndRaiseIt) {
  const SimaiCluster cluster = cluster_of(90, 25);  // 4 NICs: 100; NVLink 90 * 4 / 3 = 120
  EXPECT_EQ(simai_bandwidth(SimaiCollective::kAllReduce, {2, 4, 4}, cluster).rate, 100);
  EXPECT_FALSE(simai_bandwidth(SimaiCollective::kAllReduce, {2, 4, 4}, cluster).nvlink);
  const SimaiBandwidth wide = simai_bandwidth(SimaiCollective::kAllReduce, {2, 4, 8}, cluster);
  EXPECT_EQ(wide.rate, 120);
  EXPECT_TRUE(wide.nvlink);
}

TEST(SimaiBandwidth, AllToAllBetweenNodesHasTheNicsAlone) {
  const SimaiCluster cluster = cluster_of(200, 24);
  // 24 * 4 / 4 * 7 / 4: 8 ranks, of which 4 are elsewhere.
  EXPECT_EQ(simai_bandwidth(SimaiCollective::kAllToAll, {2, 4, 4}, cluster).rate, 42);
  EXPECT_EQ(simai_bandwidth(SimaiCollective::kAllToAll, {1, 4, 8}, cluster).rate, 200);
}

TEST(SimaiPlaces, EachDataParallelRankIsANode) {
  SimaiParallel parallel{.tp = 2, .ep = 2, .gpus = 64};
  const SimaiCluster cluster = cluster_of(200, 25);
  const SimaiPlaces data = simai_places(SimaiGroup::kData, 32, parallel, cluster);
  EXPECT_EQ(data.nodes, 32u);
  EXPECT_EQ(data.gpus, 4u);
  EXPECT_EQ(data.nics, 4u);
  const SimaiPlaces experts_data = simai_places(SimaiGroup::kExpertData, 16, parallel, cluster);
  EXPECT_EQ(experts_data.gpus, 2u);
  EXPECT_EQ(experts_data.nics, 2u);
  const SimaiPlaces experts = simai_places(SimaiGroup::kExpert, 16, parallel, cluster);
  EXPECT_EQ(experts.nodes, 4u);
  EXPECT_EQ(experts.gpus, 4u);
  parallel.tp = 16;
  const SimaiPlaces tensor = simai_places(SimaiGroup::kTensor, 16, parallel, cluster);
  EXPECT_EQ(tensor.nodes, 2u);
  EXPECT_EQ(tensor.gpus, 8u);
  EXPECT_EQ(tensor.nics, 8u);
  EXPECT_EQ(simai_places(SimaiGroup::kData, 4, parallel, cluster).gpus, 1u);
}

TEST(SimaiTime, ByBytesAndBandwidth) {
  const SimaiParallel parallel{.tp = 4, .gpus = 64};
  const SimaiCluster cluster = cluster_of(200, 25);
  const auto tensor = [&](SimaiCollective collective, uint64_t bytes) {
    return ns(pass_of(collective, SimaiGroup::kTensor, bytes), 4, parallel, cluster);
  };
  EXPECT_EQ(tensor(SimaiCollective::kAllReduce, kGiB), 7'500'000);  // 1 s / 200 * 2 * 3 / 4
  EXPECT_EQ(tensor(SimaiCollective::kAllGather, kGiB), 3'750'000);
  EXPECT_EQ(tensor(SimaiCollective::kAllReduce, 20'971'520), 146'484);  // 146484.375
  EXPECT_EQ(tensor(SimaiCollective::kAllReduce, 0), 0);
  EXPECT_EQ(tensor(SimaiCollective::kNone, kGiB), 0);
}

TEST(SimaiTime, BelowAMebibyteByTable) {
  const SimaiParallel parallel{.tp = 4, .gpus = 64};
  const SimaiCluster cluster = cluster_of(200, 25);
  const auto time = [&](uint32_t ranks, uint64_t bytes) {
    return simai_time(pass_of(SimaiCollective::kAllReduce, SimaiGroup::kData, bytes), ranks,
                      parallel, cluster)
        .value();
  };
  EXPECT_EQ(time(2, 2).ns, 10'000);
  EXPECT_EQ(time(4, 1000).ns, 12'000);
  EXPECT_EQ(time(8, 1000).ns, 15'000);
  EXPECT_EQ(time(16, 1000).ns, 66'000);
  EXPECT_EQ(time(32, 1000).ns, 135'000);
  EXPECT_EQ(time(64, 1000).ns, 200'000);
  EXPECT_EQ(time(128, (1 << 20) - 1).ns, 320'000);
  EXPECT_NE(time(128, 1 << 20).ns, 320'000);
  EXPECT_EQ(time(3, 1000).ns, 0);
  EXPECT_EQ(time(3, 1000).none, SimaiTime::None::kSmall);
  EXPECT_EQ(time(1, 1000).none, SimaiTime::None::kTimed);
}

TEST(SimaiTime, WhatSimaiHasNoTimeForIsSaid) {
  const SimaiCluster cluster = cluster_of(200, 25);
  const SimaiParallel parallel{.tp = 1, .gpus = 8};
  const auto lone = simai_time(pass_of(SimaiCollective::kAllReduce, SimaiGroup::kTensor, kGiB), 1,
                               parallel, cluster);
  EXPECT_EQ(lone.value().ns, 0);
  EXPECT_EQ(lone->none, SimaiTime::None::kLoneTensor);
  SimaiCluster narrow = cluster;
  narrow.nics_per_node = 4;
  const auto data = simai_time(pass_of(SimaiCollective::kAllReduce, SimaiGroup::kData, kGiB), 4,
                               {.tp = 8, .gpus = 32}, narrow);
  ASSERT_FALSE(data);
  EXPECT_NE(data.error().text.find("less than a NIC on each node"), std::string::npos);
  const auto odd = simai_time(pass_of(SimaiCollective::kAllToAll, SimaiGroup::kExpert, kGiB), 2,
                              {.tp = 5, .ep = 2, .gpus = 10}, cluster);
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().text.find("2 ranks that SimAI takes for one GPU"), std::string::npos);
}

RatioTable table_of(double small, double large) {
  RatioTable table;
  for (const auto& [bytes, share] : {std::pair{kGiB, small}, std::pair{3 * kGiB, large}}) {
    RatioTable::Row row;
    row.bytes = bytes;
    row.shares.fill(share);
    table.rows.push_back(row);
  }
  return table;
}

TEST(SimaiRatios, LinearBetweenRowsAndRelativeToTheLast) {
  const RatioTable table = table_of(0.4, 0.8);
  EXPECT_FLOAT_EQ(table.share(kGiB, RatioColumn::k1).value(), 0.5);
  EXPECT_FLOAT_EQ(table.share(2 * kGiB, RatioColumn::k1).value(), 0.75);
  EXPECT_FLOAT_EQ(table.share(3 * kGiB, RatioColumn::k1).value(), 1);
  EXPECT_FLOAT_EQ(table.share(1, RatioColumn::k1).value(), 0.5);
  EXPECT_FLOAT_EQ(table.share(0, RatioColumn::k1).value(), 1);
  EXPECT_FALSE(table.share(3 * kGiB + 1, RatioColumn::k1));
  EXPECT_EQ(ratio_column(4), RatioColumn::k4);
  EXPECT_EQ(ratio_column(128), RatioColumn::k128);
  EXPECT_EQ(ratio_column(12), RatioColumn::k16);
}

TEST(SimaiRatios, OnlyTensorGathersAndAllToAllsHaveThem) {
  SimaiCluster cluster = cluster_of(100, 25);
  cluster.ratios = RatioTables{table_of(0.4, 0.8), table_of(0.2, 0.8), table_of(0.1, 0.8)};
  const SimaiParallel parallel{.tp = 2, .ep = 2, .gpus = 8};
  const auto time = [&](SimaiCollective collective, SimaiGroup group) {
    return ns(pass_of(collective, group, kGiB), 2, parallel, cluster);
  };
  EXPECT_EQ(time(SimaiCollective::kAllReduce, SimaiGroup::kTensor), 10'000'000);
  EXPECT_EQ(time(SimaiCollective::kAllGather, SimaiGroup::kTensor), 10'000'000);  // half, twice
  EXPECT_EQ(time(SimaiCollective::kAllGather, SimaiGroup::kData), 5'000'000);
  EXPECT_EQ(time(SimaiCollective::kAllGather, SimaiGroup::kExpert), 5'000'000);
  EXPECT_NEAR(time(SimaiCollective::kAllToAll, SimaiGroup::kExpert), 40'000'000, 1);
}

}  // namespace
}  // namespace understudy
