// Any job beside a real node: the reference node's ranks take as long as the same ranks do when all
// are emulated and every message goes packet by packet, which knows no plan.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/report/json.h"
#include "ctrl/report/table.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/all_ranks.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

struct Cluster {
  unsigned nodes = 4;
  unsigned gpus = 1;
  bool fast = true;  ///< messages take no time on links, and so do not meet there
  std::string more = {};

  std::string text(const std::string& job, bool real) const {
    const std::string link = "gpus = " + std::to_string(gpus) +
                             "\nlink = { rate = \"100Gbit/s\", latency = \"700ns\" }\n";
    return "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n"
           "[[node]]\nname = \"gpu\"\nreal = " +
           std::string(real ? "true\n" : "false\n") + link +
           "[[node]]\nname = \"w\"\ncount = " + std::to_string(nodes - 1) + "\n" + link +
           (real ? "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n" : "") +
           "[[job]]\nname = \"j\"\nranks = [\"gpu\", \"" + (nodes > 2 ? "w*" : "w") + "\"]\n" +
           job + more;
  }
};

Config config_of(const Cluster& cluster, const std::string& job, bool real) {
  auto config = load_config_text(cluster.text(job, real), "f");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()) + cluster.text(job, real));
  if (!config) return {};
  for (NodeConfig& node : config->nodes) {
    if (cluster.fast) node.nics[0].link_rate = Rate::bits_per_second(uint64_t{1} << 62);
  }
  return std::move(*config);
}

/// Of each operation: from the first entry of node 0's ranks to their last one's end.
std::vector<Duration> by_packets(const Config& config) {
  const RankJob job = run_all_ranks(config);
  std::vector<Duration> took;
  for (size_t o = 0; o < job.operations.size(); ++o) {
    const auto [entry, end] = span_of(job, o, 0, job.communicator.gpus);
    took.push_back(end - entry);
  }
  return took;
}

RunReport beside(const Config& config) {
  auto report = compile_and_simulate(config);
  EXPECT_TRUE(report) << (report ? "" : report.error().text);
  return report ? std::move(*report) : RunReport{};
}

void expect_equal_to(const std::vector<Duration>& packets, const Cluster& cluster,
                     const std::string& job, double share) {
  const RunReport report = beside(config_of(cluster, job, true));
  EXPECT_TRUE(report.verdict.faithful) << job;
  ASSERT_EQ(report.jobs.size(), 1u) << job;
  ASSERT_EQ(report.jobs[0].collectives.size(), packets.size()) << job;
  EXPECT_EQ(report.jobs[0].violations, 0u) << job;
  for (size_t o = 0; o < packets.size(); ++o) {
    const CollectiveReport& c = report.jobs[0].collectives[o];
    EXPECT_EQ(c.size_mismatches, 0u) << job;
    // Packets' ends are rounded to a picosecond one by one.
    const double allowed = std::max(2000.0, share * static_cast<double>(packets[o].ps()));
    EXPECT_NEAR(static_cast<double>(c.node_reported->ps()), static_cast<double>(packets[o].ps()),
                allowed)
        << job << ", operation " << o;
    EXPECT_NEAR(static_cast<double>(c.modelled.ps()), static_cast<double>(packets[o].ps()), allowed)
        << job << ", operation " << o;
  }
}

/// What emulated ranks say to one another takes the plan's times, or goes packet by packet.
void expect_equal(const Cluster& cluster, const std::string& job, double share = 0) {
  const std::vector<Duration> packets = by_packets(config_of(cluster, job, false));
  for (const char* inner : {"inner = \"times\"\n", "inner = \"packets\"\n"}) {
    expect_equal_to(packets, cluster, job + inner, share);
  }
}

std::string job(const std::string& collective, const std::string& more = "",
                const std::string& sizes = "\"8KiB\", \"1MiB\"") {
  return "collective = \"" + collective + "\"\nsizes = [" + sizes +
         "]\niterations = 3\ninterval = \"3us\"\n" + more;
}

class Beside : public testing::TestWithParam<std::string> {};

TEST_P(Beside, TheRealRankTakesAsLongAsAmongPackets) { expect_equal({}, GetParam()); }

const std::string kTree = "algorithm = \"tree\"\n", kPat = "algorithm = \"pat\"\n";
INSTANTIATE_TEST_SUITE_P(
    Jobs, Beside,
    testing::Values(job("all_reduce"),
                    job("all_reduce", "protocol = \"ll\"\nstep_cost = \"1us\"\n"),
                    job("all_reduce", kTree), job("all_reduce", kTree + "channels = 2\n"),
                    job("all_reduce", kTree + "protocol = \"ll128\"\nstep_cost = \"300ns\"\n"),
                    job("all_reduce", "algorithm = \"auto\"\nprotocol = \"auto\"\nchannels = 4\n"),
                    job("all_gather", "nccl = \"2.20\"\n"), job("all_gather", kPat),
                    job("reduce_scatter"), job("reduce_scatter", kPat),
                    job("broadcast", "root = 2\nskew = [ { rank = 3, delay = \"5us\" } ]\n"),
                    job("reduce", "root = 0\n"), job("reduce", "root = 1\nprotocol = \"ll\"\n"),
                    job("send_recv", "step_cost = \"1us\"\n"), job("all_to_all", "channels = 2\n"),
                    job("gather", "root = 0\n"), job("scatter", "root = 1\n"),
                    job("all_reduce",
                        "type = \"bfloat16\"\nnccl = \"2.29\"\n"
                        "skew = [ { rank = 0, delay = \"20us\" } ]\n")));

TEST(BesideNodes, WithSeveralGpusEach) {
  const Cluster cluster{.nodes = 3, .gpus = 4};
  for (const std::string& j :
       {job("all_reduce", "channels = 2\n", "\"96KiB\""),
        job("all_reduce", kTree + "channels = 2\nstep_cost = \"1us\"\n", "\"96KiB\""),
        job("all_gather", "", "\"96KiB\""), job("all_to_all", "channels = 2\n", "\"96KiB\""),
        job("broadcast", "root = 5\n", "\"96KiB\"")}) {
    expect_equal(cluster, j);
  }
}

// At 100 Gbit/s credits and acknowledgements among packets share the data's links; the plan charges
// them their latency only.
TEST(BesideNodes, OnlyControlPacketsAreBetweenThemOnLinks) {
  Cluster cluster;
  cluster.fast = false;
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter"}) {
    expect_equal(cluster, job(collective, "", "\"4MiB\""), 0.005);
  }
}

// Where connections of a rank share its NIC now and then, nothing else than packets is exact.
TEST(BesideNodes, WhatMeetsOnLinksGoesPacketByPacketOfItself) {
  Cluster cluster{.nodes = 8};
  cluster.fast = false;
  for (const std::string& j :
       {job("all_reduce", kTree + "channels = 2\n", "\"256KiB\", \"4MiB\""),
        job("all_to_all", "channels = 2\n", "\"1MiB\""), job("all_gather", kPat, "\"1MiB\"")}) {
    const RunReport report = beside(config_of(cluster, j, true));
    const std::vector<Duration> packets = by_packets(config_of(cluster, j, false));
    ASSERT_EQ(report.jobs.at(0).collectives.size(), packets.size()) << j;
    ASSERT_TRUE(report.traffic) << j;
    EXPECT_EQ(report.traffic->inner_messages.size(), 1u) << j;
    for (size_t o = 0; o < packets.size(); ++o) {
      const auto took = static_cast<double>(packets[o].ps());
      EXPECT_EQ(report.jobs[0].collectives[o].modelled, packets[o]) << j << o;
      const Duration beside_plan = *report.jobs[0].collectives[o].node_reported;
      EXPECT_NEAR(static_cast<double>(beside_plan.ps()), took, 0.01 * took) << j << o;
    }
  }
}

}  // namespace
}  // namespace understudy
