// Several reference ranks, each on a node of its own, in one communicator with emulated ones, in
// virtual time: bootstrap, net_ib's exchange, also between two real ranks, and every packet. All
// take the time of the plan.
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

/// Neighbours, apart, the first and the last rank among them; the root is real or emulated.
const std::vector<std::vector<unsigned>> kPlaces = {{0, 1}, {1, 3}, {0, 2, 4}, {1, 2, 3}, {0, 4}};

struct Kind {
  const char* collective;
  const char* algorithm;
  const char* protocol;
  uint32_t from = 18;  ///< release
};
constexpr Kind kKinds[] = {
    {"all_reduce", "ring", "simple"},     {"all_reduce", "tree", "simple"},
    {"all_reduce", "ring", "ll128"},      {"all_gather", "ring", "ll"},
    {"reduce_scatter", "ring", "simple"}, {"broadcast", "ring", "simple"},
    {"all_gather", "pat", "simple", 23},  {"send_recv", "ring", "simple", 22},
    {"all_to_all", "ring", "simple", 22},
};

Case case_of(const Kind& kind, const std::vector<unsigned>& reals) {
  Case c;
  c.collective = kind.collective;
  c.algorithm = kind.algorithm;
  c.protocol = kind.protocol;
  c.ranks = 5;
  c.channels = 1;  // several share a NIC's link, which the plan does not know to the packet
  c.sizes = "\"72000B\", \"1048320B\"";
  c.reals = reals;
  return c;
}

void play_as_simulated(Case c, uint32_t minor) {
  // On links where they meet, the order of messages of one NIC is not the same each time.
  c.fast = c.algorithm != "ring" || c.collective != "all_reduce";
  VirtualJob::Options options;
  options.seed = minor;
  play(c, minor, options, "", as_simulated(c, minor));
}

TEST(NcclSeveral, EveryRelease) {
  for (uint32_t minor = 18; minor <= 30; ++minor) {
    for (const Kind& kind : kKinds) {
      if (minor < kind.from) continue;
      play_as_simulated(case_of(kind, kPlaces[minor % kPlaces.size()]), minor);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclSeveral, EveryPlace) {
  for (const auto& reals : kPlaces) {
    for (const Kind& kind : kKinds) {
      play_as_simulated(case_of(kind, reals), 28);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclSeveral, AtFirstUse) {
  for (const uint32_t minor : {22U, 25U, 28U, 30U}) {
    for (const Kind& kind : kKinds) {
      if (minor < kind.from) continue;
      VirtualJob::Options options;
      options.lazy = true;
      Case c = case_of(kind, kPlaces[minor % kPlaces.size()]);
      c.channels = 2;
      play(c, minor, options);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclSeveral, Exact) {
  for (uint32_t minor = 18; minor <= 30; ++minor) {
    Case c = case_of(kKinds[0], kPlaces[minor % kPlaces.size()]);
    c.payload = "exact";
    c.channels = 2;
    c.sizes = "\"256KiB\", \"100004B\", \"64B\"";
    play(c, minor);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclSeveral, ByCommIdAndWithSeveralQueuePairs) {
  for (const uint32_t minor : {22U, 28U, 30U}) {
    for (const auto& reals : kPlaces) {
      Case c = case_of(kKinds[0], reals);
      play(c, minor, {}, "comm_id = \"10.9.0.1:5555\", queue_pairs = 4");
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// Connections between real ranks that the job does not use, of a child too.
TEST(NcclSeveral, OtherConnections) {
  for (const uint32_t minor : {18U, 22U, 28U, 30U}) {
    for (const bool split : {false, true}) {
      VirtualJob::Options options;
      options.use_spares = true;
      options.split = split;
      play(case_of(kKinds[0], kPlaces[2]), minor, options);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclSeveral, Inferred) {
  for (const uint32_t minor : {25U, 28U, 30U}) {
    for (const auto& reals : kPlaces) {
      Case c = case_of(kKinds[0], reals);
      c.more = "operations = \"inferred\"\niterations = 4\n";
      play(c, minor);
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// Its last acknowledgements come after its word by TCP that it has left.
TEST(NcclSeveral, RealRanksLeaveWhenTheyHaveReceivedAll) {
  for (const auto& reals : {std::vector<unsigned>{1}, {0, 2}, {1, 2, 3}}) {
    Case c = case_of(kKinds[0], reals);
    c.latency = "2ms";
    c.more = "iterations = 2\n";
    VirtualJob::Options options;
    options.at_once = true;
    play(c, 28, options);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclSeveral, EachRealNodeIsTested) {
  const ScratchFile id("id");
  Case c = case_of(kKinds[0], {0, 2});
  c.more = "iterations = 40\n";  // 0.8 s
  const Config config = config_of(text_of(c, 28, "file = \"" + id.path() + "\""));
  VirtualJob job(config, {});
  ASSERT_EQ(job.run(), "");
  for (const std::string node : {"n0 (10.9.0.1)", "n2 (10.9.0.3)"}) {
    for (const std::string& line :
         {"self-test: " + node + " answers all 3 emulated addresses",
          "self-test: RoCE passes between " + node + " and queue pairs"}) {
      EXPECT_EQ(times_said(job.said(), line), 1u) << line;
    }
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
