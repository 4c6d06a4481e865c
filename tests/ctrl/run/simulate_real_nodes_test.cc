// Several real nodes in one job, each a reference node: all of them take as long as the same ranks
// do when all are emulated and every message goes packet by packet, which knows no plan.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/ctrl/run/simulate_rig.h"
#include "tests/rigs/all_ranks.h"

namespace understudy {
namespace {

struct Cluster {
  unsigned nodes = 5;
  std::set<unsigned> real = {};
  unsigned gpus = 1, nics = 1;
  bool fast = true;  ///< messages take no time on links, and so do not meet there
  std::string more = {};

  std::string text(const std::string& job, bool with_real) const {
    std::string out = "format = 1\n", ranks;
    for (unsigned nic = 0; nic < nics; ++nic) {
      out += "[[prefix]]\nnic = " + std::to_string(nic) + "\nv4 = \"10." + std::to_string(9 + nic) +
             ".0.0/16\"\n";
    }
    for (unsigned node = 0; node < nodes; ++node) {
      out += "[[node]]\nname = \"n" + std::to_string(node) + "\"\n" +
             (with_real && real.contains(node) ? "real = true\n" : "") +
             "gpus = " + std::to_string(gpus) + "\nnics = " + std::to_string(nics) +
             "\nlink = { rate = \"100Gbit/s\", latency = \"700ns\" }\n";
      ranks += (node == 0 ? "\"n" : ", \"n") + std::to_string(node) + "\"";
    }
    for (const unsigned node : real) {
      for (unsigned nic = 0; with_real && nic < nics; ++nic) {
        out += "[[port]]\nreal = \"n" + std::to_string(node) + "\"\nnic = " + std::to_string(nic) +
               "\ndevice = \"virtual\"\n";
      }
    }
    return out + "[[job]]\nname = \"j\"\nranks = [" + ranks + "]\n" + job + more;
  }

  Config config(const std::string& job, bool with_real) const {
    Config config = config_of(text(job, with_real));
    for (NodeConfig& node : config.nodes) {
      for (NicConfig& nic : node.nics) {
        if (fast) nic.link_rate = Rate::bits_per_second(uint64_t{1} << 62);
      }
    }
    return config;
  }
};

std::string job(const std::string& collective, const std::string& more = "",
                const std::string& sizes = "\"8000B\", \"1MB\"") {
  return "collective = \"" + collective + "\"\nsizes = [" + sizes +
         "]\niterations = 2\ninterval = \"3us\"\n" + more;
}

/// Of each operation: from the first entry of these nodes' ranks to their last one's end; of all of
/// them, and of each for itself.
struct Took {
  Duration all;
  std::vector<Duration> by_node;
};
std::vector<Took> by_packets(const Cluster& cluster, const std::string& text) {
  const RankJob job = run_all_ranks(cluster.config(text, false));
  std::vector<Took> took;
  for (size_t o = 0; o < job.operations.size(); ++o) {
    Time first = Time::never(), last;
    Took& t = took.emplace_back();
    for (const unsigned node : cluster.real) {
      const auto [entry, end] = span_of(job, o, node * cluster.gpus, cluster.gpus);
      first = std::min(first, entry);
      last = std::max(last, end);
      t.by_node.push_back(end - entry);
    }
    t.all = last - first;
  }
  return took;
}

void near(Duration a, Duration b, double share, const std::string& what) {
  // Packets' ends are rounded to a picosecond one by one.
  const double allowed = std::max(2000.0, share * static_cast<double>(b.ps()));
  EXPECT_NEAR(static_cast<double>(a.ps()), static_cast<double>(b.ps()), allowed) << what;
}

void expect_equal(const Cluster& cluster, const std::string& text, double share = 0) {
  const std::vector<Took> packets = by_packets(cluster, text);
  for (const char* inner : {"inner = \"times\"\n", "inner = \"packets\"\n"}) {
    const RunReport report = simulated(cluster.config(text + inner, true));
    EXPECT_TRUE(report.verdict.faithful) << text;
    ASSERT_EQ(report.jobs.size(), 1u) << text;
    const JobReport& j = report.jobs[0];
    ASSERT_EQ(j.collectives.size(), packets.size()) << text;
    EXPECT_EQ(j.violations, 0u) << text;
    ASSERT_EQ(j.real_nodes.size(), cluster.real.size());
    for (size_t o = 0; o < packets.size(); ++o) {
      const CollectiveReport& c = j.collectives[o];
      const std::string what = text + inner + "operation " + std::to_string(o);
      EXPECT_EQ(c.size_mismatches, 0u) << what;
      near(*c.node_reported, packets[o].all, share, what);
      near(c.modelled, packets[o].all, share, what + ", modelled");
      if (cluster.real.size() == 1) continue;
      ASSERT_EQ(c.by_node.size(), packets[o].by_node.size()) << what;
      for (size_t i = 0; i < c.by_node.size(); ++i) {
        near(c.by_node[i], packets[o].by_node[i], share, what + ", node " + std::to_string(i));
      }
    }
  }
}

const std::string kTree = "algorithm = \"tree\"\n", kPat = "algorithm = \"pat\"\n";

class RealNodes : public testing::TestWithParam<std::string> {};

TEST_P(RealNodes, TakeAsLongAsAmongPackets) {
  for (const std::set<unsigned>& real :
       {std::set<unsigned>{0, 2}, std::set<unsigned>{1, 2}, std::set<unsigned>{0, 3, 4}}) {
    expect_equal({.real = real}, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, RealNodes,
    testing::Values(job("all_reduce"),
                    job("all_reduce", "protocol = \"ll\"\nstep_cost = \"1us\"\n"),
                    job("all_reduce", kTree + "channels = 2\n"), job("all_gather", kPat),
                    job("reduce_scatter", "skew = [ { rank = 3, delay = \"20us\" } ]\n"),
                    job("broadcast", "root = 2\n"), job("send_recv", "step_cost = \"1us\"\n"),
                    job("all_to_all", "channels = 2\n"), job("gather", "root = 0\n")));

TEST(RealNodesWith, SeveralGpusEach) {
  for (const std::string& j :
       {job("all_reduce", "channels = 2\n", "\"96KiB\""),
        job("all_reduce", kTree + "channels = 2\nstep_cost = \"1us\"\n", "\"96KiB\""),
        job("all_to_all", "channels = 2\n", "\"96KiB\"")}) {
    expect_equal({.nodes = 3, .real = {0, 2}, .gpus = 4}, j);
  }
}

TEST(RealNodesWith, SeveralNicsEach) {
  for (const std::string& j :
       {job("all_reduce", "channels = 4\n", "\"96KiB\""),
        job("all_reduce", kTree + "channels = 2\nstep_cost = \"1us\"\n", "\"96KiB\""),
        job("all_to_all", "channels = 2\n", "\"96KiB\"")}) {
    expect_equal({.nodes = 3, .real = {1}, .gpus = 4, .nics = 2}, j);
    expect_equal({.nodes = 3, .real = {0, 2}, .gpus = 4, .nics = 4}, j);
  }
}

// At 100 Gbit/s credits and acknowledgements among packets share the data's links; the plan charges
// them their latency only.
TEST(RealNodesWith, OnlyControlPacketsBetweenTheirMessagesOnLinks) {
  for (const char* collective : {"all_reduce", "all_gather"}) {
    expect_equal({.real = {1, 2}, .fast = false}, job(collective, "", "\"4MB\""), 0.005);
  }
}

const std::string kLeafSpine =
    "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 2\nspines = 2\n"
    "uplink = { rate = \"100Gbit/s\", latency = \"500ns\" }\n";

// What passes between two real nodes is in the capture twice, in front of the one and the other.
TEST(RealNodesCaptured, HoldByTheSchedules) {
  for (const std::string& more : {std::string(), kLeafSpine}) {
    for (const std::string& j :
         {job("all_reduce", "channels = 2\n"), job("all_reduce", kTree),
          job("all_reduce", "algorithm = \"auto\"\nprotocol = \"auto\"\nchannels = 4\n"),
          job("all_gather", kPat), job("all_to_all"), job("send_recv"),
          job("gather", "root = 1\n")}) {
      const Cluster cluster{.real = {0, 1, 3}, .fast = false, .more = more};
      const Config config = cluster.config(j, true);
      const ScratchFile capture("pcapng");
      EXPECT_TRUE(simulated(config, capture.path()).verdict.faithful) << j << more;
      const Analysis analysis = judged(capture.path(), &config);
      for (const Check check :
           {Check::kOrder, Check::kAcks, Check::kComplete, Check::kCollective, Check::kRate}) {
        EXPECT_EQ(analysis.findings.verdict(check), Verdict::kHolds)
            << j << more << check_info(check).name;
      }
      std::string other = j;
      other.replace(other.find("1MB"), 3, "2MB");
      const Config wrong = cluster.config(other, true);
      EXPECT_EQ(judged(capture.path(), &wrong).findings.verdict(Check::kCollective),
                Verdict::kFails)
          << j << more;
    }
  }
}

TEST(RealNodesCaptured, SeveralGpusAndNics) {
  const Cluster cluster{.nodes = 4, .real = {0, 2}, .gpus = 4, .nics = 2, .fast = false};
  for (const std::string& j :
       {job("all_reduce", "channels = 4\n", "\"96KiB\""), job("all_to_all", "", "\"96KiB\"")}) {
    const Config config = cluster.config(j, true);
    const ScratchFile capture("pcapng");
    EXPECT_TRUE(simulated(config, capture.path()).verdict.faithful);
    const Analysis analysis = judged(capture.path(), &config);
    EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds) << j;
    EXPECT_EQ(analysis.source.interfaces.size(), 4u);
  }
}

// Packets from one real node to another are marked by switches as any others, and their CNPs come
// back the same way.
TEST(RealNodesCongested, AreMarkedAndSlowDown) {
  const Cluster cluster{
      .nodes = 4,
      .real = {0, 1},
      .fast = false,
      .more = kLeafSpine +
              "[[event]]\nat = \"1us\"\nlink = \"n1\"\nrate = \"20Gbit/s\"\n"
              "[[queues.class]]\necn = { kmin = \"20KB\", kmax = \"80KB\", pmax = 0.2 }\n"
              "[[control]]\nname = \"dcqcn\"\nlaw = \"dcqcn\"\n"};
  const Config config = cluster.config(
      job("all_reduce", "traffic_class = 2\ncontrol = \"dcqcn\"\n", "\"16MiB\""), true);
  const ScratchFile capture("pcapng");
  const RunReport report = simulated(config, capture.path());
  EXPECT_TRUE(report.verdict.faithful);
  const auto count = [&](size_t port, const std::string& name) {
    for (const auto& [key, value] : report.ports.at(port).counters) {
      if (key == name) return value;
    }
    return uint64_t{0};
  };
  EXPECT_GT(count(1, "ce_sent"), 0u);  // from node 0, which is real: its ring's predecessor
  uint64_t cuts = 0;
  for (const SenderReport& sender : report.ports.at(0).senders) {
    if (sender.reference) cuts += sender.rate_cuts;
  }
  EXPECT_GT(cuts, 0u);
  const Analysis analysis = judged(capture.path(), &config);
  EXPECT_EQ(analysis.findings.verdict(Check::kEcn), Verdict::kHolds);
  EXPECT_EQ(analysis.findings.verdict(Check::kIcrc), Verdict::kHolds);
  EXPECT_EQ(analysis.findings.verdict(Check::kHeaders), Verdict::kHolds);
}

}  // namespace
}  // namespace understudy
