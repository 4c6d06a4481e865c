// Which ports of a run in real time share a shard: those behind which packets can meet.
#include <gtest/gtest.h>

#include "ctrl/compile/shard_config.h"

namespace understudy {
namespace {

/// Nodes with `gpus` each, and a port for each (node, NIC) of `ports`, in that order.
Config with_ports(uint32_t nodes, const std::vector<std::pair<NodeId, unsigned>>& ports,
                  uint32_t gpus = 1) {
  Config config;
  unsigned nics = 1;
  for (const auto& [node, nic] : ports) nics = std::max(nics, nic + 1);
  for (NodeId id = 0; id < nodes; ++id) {
    NodeConfig node;
    node.index = id;
    node.gpus = gpus;
    node.nics.resize(nics);
    config.nodes.push_back(node);
  }
  for (const auto& [node, nic] : ports) {
    PortConfig port;
    port.node = node;
    port.nic = nic;
    config.ports.push_back(port);
  }
  return config;
}

JobConfig job_of(std::vector<NodeId> ranks) {
  JobConfig job;
  job.ranks = std::move(ranks);
  return job;
}

using Shards = std::vector<PortList>;

TEST(LiveShards, NicsOfARailMeetOnTheLinksOfWhomTheyReach) {
  const Config config = with_ports(3, {{1, 0}, {0, 1}, {0, 0}});
  EXPECT_EQ(live_shards(config, false), (Shards{{1}, {2, 0}})) << "in order of their nodes";
}

TEST(LiveShards, SwitchesAreTheSameOnesForAll) {
  const Config config = with_ports(3, {{1, 0}, {0, 1}, {0, 0}});
  EXPECT_EQ(live_shards(config, true), (Shards{{2, 1, 0}}));
}

TEST(LiveShards, RailsStayApartWhereNoJobHasBoth) {
  Config config = with_ports(2, {{0, 0}, {0, 1}});
  config.jobs = {job_of({0, 1}), job_of({0, 1})};
  config.jobs[1].nic = 1;
  EXPECT_EQ(live_shards(config, false), (Shards{{0}, {1}}));
}

TEST(LiveShards, AJobThatMergesNicsHasThemTogether) {
  Config config = with_ports(2, {{0, 0}, {0, 1}, {0, 2}});
  config.jobs = {job_of({0, 1})};
  config.jobs[0].nic = 1;
  config.jobs[0].merged_nics = 2;
  EXPECT_EQ(live_shards(config, false), (Shards{{0}, {1, 2}}));
}

TEST(LiveShards, RanksNextToSeveralNicsHaveThemTogether) {
  Config config = with_ports(2, {{0, 0}, {0, 1}}, 4);
  EXPECT_EQ(live_shards(config, false).size(), 2u);
  config.jobs = {job_of({0, 1})};
  EXPECT_EQ(live_shards(config, false), (Shards{{0, 1}}));
}

TEST(LiveShards, AThirdPortMayJoinTwoShards) {
  const Config apart = with_ports(3, {{0, 0}, {1, 1}});
  EXPECT_EQ(live_shards(apart, false).size(), 2u);
  Config joined = with_ports(3, {{0, 0}, {1, 1}, {2, 0}, {2, 1}}, 2);
  joined.jobs = {job_of({0, 2})};
  EXPECT_EQ(live_shards(joined, false), (Shards{{0, 1, 2, 3}}));
}

}  // namespace
}  // namespace understudy
