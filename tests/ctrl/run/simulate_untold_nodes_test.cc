// Several real nodes in one job whose operations are fed or inferred: all of them take as long as
// in a run that was told what they do.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ctrl/peers/feed.h"
#include "tests/ctrl/run/simulate_rig.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

struct Cluster {
  unsigned nodes = 5;
  std::set<unsigned> real = {0, 2};
  unsigned gpus = 1, channels = 1;
  std::string collective = "all_reduce", more = "", sizes = "\"66000B\", \"3120000B\"";
  std::string algorithm = "ring";  ///< empty: sends and receives
  std::string fabric = "";         ///< more tables
  bool fast = true;                ///< messages take no time on links, and so do not meet there

  Config config(const std::string& operations) const {
    std::string text = "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n", ranks;
    for (unsigned node = 0; node < nodes; ++node) {
      const std::string name = "\"n" + std::to_string(node) + "\"";
      text += "[[node]]\nname = " + name + "\n" + (real.contains(node) ? "real = true\n" : "") +
              "gpus = " + std::to_string(gpus) +
              "\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
      if (real.contains(node)) text += "[[port]]\nreal = " + name + "\ndevice = \"virtual\"\n";
      ranks += (node == 0 ? "" : ", ") + name;
    }
    text += "[[job]]\nname = \"j\"\ncollective = \"" + collective + "\"\nranks = [" + ranks +
            "]\nsizes = [" + sizes + "]\nwarmup = 1\niterations = 2\nentry = \"first_credit\"\n" +
            "interval = \"1ms\"\ninner = \"times\"\nchannels = " + std::to_string(channels) +
            "\ngpus = " + std::to_string(gpus) + "\noperations = \"" + operations + "\"\n";
    if (!algorithm.empty()) text += "algorithm = \"" + algorithm + "\"\n";
    Config config = config_of(text + more + fabric);
    for (NodeConfig& node : config.nodes) {
      if (fast) node.nics[0].link_rate = Rate::bits_per_second(uint64_t{1} << 62);
    }
    return config;
  }
};

std::string describe(const Cluster& c) {
  std::string text = c.collective + " " + c.algorithm + " " + c.more + " real";
  for (const unsigned node : c.real) text += " " + std::to_string(node);
  return text;
}

const std::string kLeafSpine =
    "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 2\nspines = 2\n"
    "uplink = { rate = \"10Gbit/s\", latency = \"1us\" }\n";

const std::vector<std::set<unsigned>> kPlaces = {{0, 2}, {1, 2}, {0, 3, 4}};

void near(const std::optional<Duration>& a, const std::optional<Duration>& b, double share,
          Duration least) {
  ASSERT_TRUE(a && b);
  const auto expected = static_cast<double>(b->ps());
  const double allowed = std::max(static_cast<double>(least.ps()), share * expected);
  EXPECT_NEAR(static_cast<double>(a->ps()), expected, allowed);
}

/// Packets' ends are rounded to a picosecond one by one. After a first operation that was inferred,
/// and late, real nodes enter the next ones as far apart as they ended it, by some ways: that shows
/// where messages take no time.
void expect_told(const Cluster& cluster, bool fed) {
  const std::string way = fed ? "fed" : "inferred";
  const Duration least = fed ? Duration::ns(2) : Duration::us(8);
  const double share = cluster.fast ? 0 : fed ? 0.01 : 0.07;
  SCOPED_TRACE(way + ": " + describe(cluster));
  const RunReport told = simulated(cluster.config("told"));
  const RunReport report = simulated(cluster.config(way));
  ASSERT_EQ(report.jobs.size(), 1u);
  const JobReport& job = report.jobs[0];
  ASSERT_TRUE(job.inferred);
  EXPECT_EQ(job.inferred->lost, "");
  EXPECT_EQ(job.violations, 0u);
  ASSERT_EQ(job.real_nodes.size(), cluster.real.size());
  const auto& expected = told.jobs[0].collectives;
  ASSERT_EQ(job.collectives.size(), expected.size());
  ASSERT_EQ(job.inferred->operations.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("operation " + std::to_string(i));
    const CollectiveReport& c = job.collectives[i];
    EXPECT_EQ(job.inferred->operations[i].right, true) << job.inferred->operations[i].operation;
    if (!fed && i % 3 == 0) continue;  // it was not known beforehand
    EXPECT_EQ(job.inferred->operations[i].late_messages, 0u);
    EXPECT_EQ(c.size_mismatches, 0u);
    EXPECT_TRUE(c.faithful);
    if (!fed && cluster.fast) continue;
    near(c.node_reported, expected[i].node_reported, share, least);
    ASSERT_EQ(c.by_node.size(), expected[i].by_node.size());
    for (size_t n = 0; n < c.by_node.size(); ++n) {
      near(c.by_node[n], expected[i].by_node[n], share, least);
    }
  }
}

const std::vector<Cluster> kCollectives = {
    {},
    {.more = "protocol = \"ll128\"\n"},
    {.algorithm = "tree"},
    {.collective = "all_gather", .algorithm = "pat"},
    {.collective = "reduce_scatter"},
    {.collective = "broadcast", .more = "root = 2\n"},
    {.channels = 2},
};
/// On links where messages meet. Before an operation is told, credits leave ahead on all
/// connections, more than it needs, and share the links with its messages.
const std::vector<Cluster> kSlow = {
    {.fast = false},
    {.algorithm = "tree", .fast = false},
    {.fabric = kLeafSpine, .fast = false},
};
const std::vector<Cluster> kPairs = {
    {.collective = "send_recv", .algorithm = ""},
    {.collective = "all_to_all", .algorithm = ""},
    {.collective = "gather", .more = "root = 1\n", .algorithm = ""},
    {.collective = "scatter", .algorithm = ""},
};

TEST(FedNodes, TakeAsLongAsInARunThatWasTold) {
  for (const auto& all : {kCollectives, kPairs, kSlow}) {
    for (Cluster cluster : all) {
      for (const auto& real : kPlaces) {
        cluster.real = real;
        expect_told(cluster, true);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(FedNodes, SeveralGpusEach) {
  for (const char* collective : {"all_reduce", "all_to_all"}) {
    Cluster cluster{.nodes = 3, .gpus = 2, .collective = collective};
    cluster.sizes = "\"96KiB\", \"3120000B\"";
    if (cluster.collective == "all_to_all") cluster.algorithm = "";
    expect_told(cluster, true);
  }
}

/// The wire does not tell all: not apart a reduce-scatter and an all-gather, beside one real node
/// neither; not where operations end of which a real rank's own messages go to real ranks only, nor
/// the size of what nobody sends back.
bool is_seen(const Cluster& c) {
  if (c.algorithm == "tree" && !c.fast) return false;  // it begins before the one before has ended
  if (c.collective == "send_recv") return !c.real.contains(1) && !c.real.contains(3);
  return c.collective != "reduce_scatter" && c.collective != "broadcast" &&
         c.collective != "gather" && c.collective != "scatter";
}

TEST(InferredNodes, TakeAsLongAsInARunThatWasToldOnceTheyRepeat) {
  for (const auto& all : {kCollectives, kPairs, kSlow}) {
    for (Cluster cluster : all) {
      for (const auto& real : kPlaces) {
        cluster.real = real;
        if (is_seen(cluster)) expect_told(cluster, false);
      }
    }
  }
}

/// What cannot be seen is said, and every credit is answered.
TEST(InferredNodes, LoseTrackOfSendsToRealNodesOnly) {
  Cluster cluster{.real = {1, 2}, .collective = "send_recv", .algorithm = ""};
  const RunReport report = simulated(cluster.config("inferred"));
  EXPECT_EQ(report.jobs.at(0).inferred->lost,
            "rank 1 has waited for 1.049 s for what no send or receive explains");
  EXPECT_FALSE(report.verdict.faithful);
  EXPECT_FALSE(report.jobs[0].failed);
  EXPECT_EQ(report.jobs[0].violations, 0u);
}

/// The record of each real rank, operation by operation.
std::vector<FedOperation> right_feed() {
  std::vector<FedOperation> feed;
  for (uint64_t operation = 0; operation < 6; ++operation) {
    for (const uint32_t rank : {0u, 2u}) {
      FedOperation fed;
      fed.rank = rank;
      fed.communicator = 0xfeed;
      fed.sequence = operation;
      fed.operation.count = (operation < 3 ? 66000u : 3120000u) / 4;
      fed.operation.channels = 1;
      feed.push_back(fed);
    }
  }
  return feed;
}

RunReport recorded(const std::vector<FedOperation>& feed) {
  const ScratchFile file("feed");
  std::ofstream out(file.path(), std::ios::binary);
  for (const FedOperation& fed : feed) {
    const auto record = record_of(fed);
    out.write(reinterpret_cast<const char*>(record.data()),
              static_cast<std::streamsize>(record.size()));
  }
  out.close();
  SimulateOptions options;
  options.feed_path = file.path();
  auto report = compile_and_simulate(Cluster().config("fed"), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().text);
  return report ? std::move(*report) : RunReport{};
}

/// An operation is known once one real rank has told it; what another one tells must agree.
TEST(FedNodes, MustAgree) {
  struct Case {
    std::string lost;
    std::function<void(std::vector<FedOperation>&)> change;
  };
  const Case cases[] = {
      {"", [](auto&) {}},
      {"", [](auto& feed) { std::erase_if(feed, [](const auto& f) { return f.rank == 2; }); }},
      {"the feed contradicts itself: operation 2 is all_reduce ring simple of 132000 B to rank 2, "
       "and was all_reduce ring simple of 66000 B to rank 0",
       [](auto& feed) { feed[5].operation.count = 33000; }},
      {"the feed contradicts itself: operation 0 is all_gather ring simple of 66000 B to rank 2, "
       "and was all_reduce ring simple of 66000 B to rank 0",
       [](auto& feed) { feed[1].operation.collective = Collective::kAllGather; }},
      {"the feed has a gap: rank 2 tells all_reduce 3 after 1",
       [](auto& feed) { feed.erase(feed.begin() + 5); }},
      {"the feed speaks of rank 1, which is not real", [](auto& feed) { feed[1].rank = 1; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.lost);
    std::vector<FedOperation> feed = right_feed();
    c.change(feed);
    const RunReport report = recorded(feed);
    ASSERT_TRUE(report.jobs.at(0).inferred);
    EXPECT_EQ(report.jobs[0].inferred->lost, c.lost);
    EXPECT_EQ(report.verdict.faithful, c.lost.empty());
    EXPECT_FALSE(report.jobs[0].failed);
    EXPECT_EQ(report.jobs[0].violations, 0u);
  }
}

}  // namespace
}  // namespace understudy
