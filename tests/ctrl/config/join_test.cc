// job.join and job.groups, and merged NICs of a joined job.
#include <gtest/gtest.h>

#include <algorithm>

#include "ctrl/compile/capabilities.h"
#include "ctrl/compile/environment/node_environment.h"
#include "ctrl/config/read/load.h"
#include "tests/rigs/joined_job.h"

namespace understudy {
namespace {

std::string errors_of(const std::string& text) {
  const auto result = load_config_text(text, "join.toml");
  return result ? "" : describe(result.error());
}

TEST(ConfigJoin, ReadsEachWay) {
  const auto by_id = load_config_text(
      with(std::string(kRealFirst) + "join = { comm_id = \"10.9.0.1:5555\" }"), "join.toml");
  ASSERT_TRUE(by_id) << describe(by_id.error());
  const NcclJoinConfig& join = *by_id->jobs[0].join;
  EXPECT_EQ(join.way, NcclJoinConfig::Way::kCommId);
  EXPECT_EQ(join.address.text(), "10.9.0.1");
  EXPECT_EQ(join.port, 5555);
  // Any collective, once the real ranks are NCCL's.
  EXPECT_EQ(why_not({*by_id}, RunClock::kReal), "");

  const auto by_file = load_config_text(
      with(std::string(kRealFirst) + "nccl = \"2.18\"\njoin = { file = \"uid\" }"), "join.toml");
  ASSERT_TRUE(by_file) << describe(by_file.error());
  EXPECT_EQ(by_file->jobs[0].join->way, NcclJoinConfig::Way::kFile);
  EXPECT_EQ(by_file->jobs[0].join->file, "uid");

  const auto by_store =
      load_config_text(with(std::string(kEmulatedFirst) +
                            "join = { master = \"10.9.0.2:29500\", torch = \"1.13\" }"),
                       "join.toml");
  ASSERT_TRUE(by_store) << describe(by_store.error());
  EXPECT_EQ(by_store->jobs[0].join->way, NcclJoinConfig::Way::kStore);
  EXPECT_EQ(by_store->jobs[0].join->torch, "1.13");
}

/// torchrun's store is with any node of the job; each real node has its command line.
TEST(ConfigJoin, ReadsARendezvous) {
  const auto of = [](const char* ranks, const std::string& join) {
    return load_config_text(with(std::string(ranks) + "join = { " + join + " }"), "join.toml");
  };
  const auto config = of(kRealFirst, "rendezvous = \"10.9.0.1:29400\", run_id = \"job1\"");
  ASSERT_TRUE(config) << describe(config.error());
  const NcclJoinConfig& join = *config->jobs[0].join;
  EXPECT_EQ(join.way, NcclJoinConfig::Way::kRendezvous);
  EXPECT_TRUE(join.has_store());
  EXPECT_EQ(join.run_id, "job1");
  const std::string script = node_environment(*config, config->jobs[0]);
  EXPECT_NE(
      script.find("torchrun --nnodes 4 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint "
                  "10.9.0.1:29400 --rdzv-id 'job1' --rdzv-conf is_host=1 --local-addr "
                  "10.9.0.1 PROGRAM"),
      std::string::npos)
      << script;
  EXPECT_EQ(script.find("MASTER_ADDR="), std::string::npos);
  const auto other = of(kEmulatedFirst, "rendezvous = \"10.9.0.3:29400\", torch = \"1.13\"");
  ASSERT_TRUE(other) << describe(other.error());
  EXPECT_EQ(other->jobs[0].join->run_id, "none");
  EXPECT_NE(node_environment(*other, other->jobs[0]).find("is_host=0 PROGRAM"), std::string::npos);
}

TEST(ConfigJoin, NamesWhatIsWrong) {
  const struct {
    const char* ranks;
    const char* join;
    const char* words;
  } cases[] = {
      {kRealFirst, "join = { }", "one of comm_id = "},
      {kRealFirst, "join = { file = \"\" }", "a file's name"},
      {kRealFirst, "join = { comm_id = \"10.9.0.1\" }", "an address and a port"},
      {kRealFirst, "join = { comm_id = \"10.9.0.1:0\" }", "an address and a port"},
      {kRealFirst, "join = { comm_id = \"10.9.0.1:65536\" }", "an address and a port"},
      {kRealFirst, "join = { comm_id = \"gpu:5555\" }", "an address and a port"},
      {kRealFirst, "join = { comm_id = \"10.9.0.2:5555\" }", "rank 0, which is node gpu: 10.9.0.1"},
      {kEmulatedFirst, "join = { comm_id = \"10.9.0.1:5\" }", "rank 0, which is node w0: 10.9.0.2"},
      {kRealFirst, "join = { comm_id = \"10.9.0.1:5\", file = \"f\" }", "several ways"},
      {kRealFirst, "join = { file = \"f\", torch = \"2.4\" }", "goes with master"},
      {kRealFirst, "join = { master = \"10.9.0.1:29500\", torch = \"two\" }", "as in \"2.4\""},
      {kRealFirst, "nccl = \"2.17\"\njoin = { file = \"f\" }", "communicators of 2.18 to 2.31"},
      {kRealFirst, "nccl = \"2.20\"\njoin = { comm_id = \"10.9.0.1:5\" }", "NCCL up to 2.21"},
      {kRealFirst, "nccl = \"2.29\"\njoin = { comm_id = \"10.9.0.1:5\" }", "not in its network"},
      {kRealFirst, "join = { rendezvous = \"10.9.0.77:29400\" }", "one of the job's nodes"},
      {kRealFirst, "join = { rendezvous = \"gpu\" }", "an address and a port"},
      {kRealFirst, "join = { rendezvous = \"10.9.0.2:29400\", run_id = \"\" }", "--rdzv-id"},
      {kRealFirst, "join = { file = \"f\", run_id = \"job1\" }", "goes with rendezvous"},
      {kRealFirst, "join = { file = \"f\", rendezvous = \"10.9.0.1:1\" }", "several ways"},
      {kRealFirst, "join = { com_id = \"10.9.0.1:5\" }", "comm_id"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.join);
    const std::string errors = errors_of(with(std::string(c.ranks) + c.join));
    EXPECT_NE(errors.find(c.words), std::string::npos) << errors;
    EXPECT_NE(errors.find("join.toml:2"), std::string::npos) << errors;  // a line of the job
  }
}

TEST(ConfigJoin, ReadsHowManyCommunicators) {
  const auto read = [](const std::string& more) {
    return load_config_text(with(std::string(kRealFirst) + "join = { file = \"uid\"" + more + " }"),
                            "join.toml");
  };
  EXPECT_EQ(read("")->jobs[0].join->communicators, 1u);
  EXPECT_TRUE(read("")->jobs[0].join->joins_once());
  EXPECT_EQ(read(", communicators = 3")->jobs[0].join->communicators, 3u);
  EXPECT_FALSE(read(", communicators = 3")->jobs[0].join->joins_once());
  EXPECT_EQ(read(", communicators = \"any\"")->jobs[0].join->communicators, std::nullopt);
  for (const char* bad : {"0", "-1", "\"all\"", "2.5", "1000001", "true"}) {
    const auto wrong = read(std::string(", communicators = ") + bad);
    ASSERT_FALSE(wrong) << bad;
    EXPECT_NE(describe(wrong.error()).find("from 1 on, or \"any\""), std::string::npos)
        << describe(wrong.error());
  }
  const auto store = load_config_text(
      with(std::string(kRealFirst) +
           "join = { master = \"10.9.0.1:29500\", torch = \"2.4\", communicators = 2 }"),
      "join.toml");
  ASSERT_TRUE(store) << describe(store.error());
  EXPECT_EQ(store->jobs[0].join->communicators, 2u);
}

TEST(ConfigJoin, TwoJobsDoNotMeetAtOnePlace) {
  const std::string second =
      "[[job]]\nname = \"k\"\ncollective = \"all_gather\"\nsizes = "
      "[\"64KiB\"]\n" +
      std::string(kRealFirst);
  const auto both = [&](const char* first, const char* other) {
    return errors_of(with(std::string(kRealFirst) + first + "\n" + second + other));
  };
  EXPECT_NE(both("join = { comm_id = \"10.9.0.1:5555\" }", "join = { comm_id = \"10.9.0.1:5555\" }")
                .find("10.9.0.1 port 5555"),
            std::string::npos);
  EXPECT_NE(both("join = { file = \"uid\" }", "join = { file = \"uid\" }").find("job \"j\" has"),
            std::string::npos);
  EXPECT_EQ(both("join = { file = \"uid\" }", "join = { file = \"uid2\" }"), "");
}

/// They take its communicators in turn.
TEST(ConfigJoin, JobsOfSeveralCommunicatorsMayShareAPlace) {
  const auto both = [&](const char* ranks, const std::string& join, const std::string& other) {
    return errors_of(with(std::string(ranks) + "join = { " + join + " }\n[[job]]\nname = \"k\"\n" +
                          "collective = \"all_gather\"\nsizes = [\"64KiB\"]\n" + ranks +
                          "join = { " + other + " }\n"));
  };
  const std::string file = "file = \"uid\", communicators = ";
  EXPECT_EQ(both(kRealFirst, file + "2", file + "\"any\""), "");
  const std::string address = "comm_id = \"10.9.0.1:5555\", communicators = 3";
  EXPECT_EQ(both(kRealFirst, address, address), "");
  for (const std::string& errors :
       {both(kRealFirst, file + "2", file + "1"), both(kEmulatedFirst, file + "2", file + "2")}) {
    EXPECT_NE(errors.find("share one if rank 0 is real"), std::string::npos) << errors;
  }
}

TEST(ConfigJoin, GroupsAreRulesOrRanks) {
  const auto job = [](const char* groups) {
    return with(std::string(kRealFirst) + "join = { file = \"uid\" }\ngroups = " + groups);
  };
  const auto config = load_config_text(
      job("[\"all\", \"node\", \"local_rank\", \"/2\", \"%3\", [0, 3], [[0, 1], [2]]]"),
      "join.toml");
  ASSERT_TRUE(config) << describe(config.error());
  using Partition = std::vector<std::vector<uint32_t>>;
  const std::vector<Partition> expected = {{{0, 1, 2, 3}},   {{0}, {1}, {2}, {3}}, {{0, 1, 2, 3}},
                                           {{0, 1}, {2, 3}}, {{0, 3}, {1}, {2}},   {{0, 3}},
                                           {{0, 1}, {2}}};
  EXPECT_EQ(config->jobs[0].groups, expected);
  for (const char* bad : {"\"node\"", "[\"nodes\"]", "[\"/0\"]", "[\"%x\"]", "[3]", "[[4]]",
                          "[[0, 0]]", "[[[0], [0]]]", "[[]]"}) {
    const std::string errors = errors_of(job(bad));
    EXPECT_NE(errors.find("job.groups"), std::string::npos) << bad << ": " << errors;
  }
  EXPECT_NE(errors_of(with(std::string(kRealFirst) + "groups = [\"all\"]")).find("set join"),
            std::string::npos);
}

/// Two ports that NCCL makes one device of.
constexpr const char* kMerged = R"(format = 1
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[prefix]]
nic = 1
v4 = "10.10.0.0/24"
[[node]]
name = "gpu"
real = true
nics = 2
link = { rate = "50Gbit/s", latency = "1us" }
[[node]]
name = "w"
count = 3
link = { rate = "100Gbit/s", latency = "1us" }
[[port]]
real = "gpu"
nic = 0
device = "virtual"
[[port]]
real = "gpu"
nic = 1
device = "virtual"
[[job]]
name = "j"
collective = "all_reduce"
ranks = ["gpu", "w*"]
sizes = ["64KiB"]
join = { file = "uid" }
)";

TEST(MergedNics, AreReadAndSet) {
  const std::string text = kMerged;
  const auto config = load_config_text(text + "merged_nics = 2\n", "join.toml");
  ASSERT_TRUE(config) << describe(config.error());
  const auto settings = node_settings(*config, config->jobs[0]);
  const auto value = [&](const std::string& name) {
    const auto it = std::ranges::find(settings, name, &NodeSetting::name);
    return it == settings.end() ? std::string() : it->value;
  };
  EXPECT_EQ(value("NCCL_IB_MERGE_NICS"), "1");
  EXPECT_EQ(value("NCCL_NET_FORCE_MERGE"), "\"$understudy_hca\"");
  const std::string script = node_environment(*config, config->jobs[0]);
  EXPECT_NE(script.find("0000:0000:0000:0000:0000:ffff:0a0a:0001"), std::string::npos) << script;
  EXPECT_NE(script.find("understudy_hca=$understudy_hca,$understudy_found"), std::string::npos);
  const auto refused = [&](const std::string& more, const std::string& why) {
    const std::string errors = errors_of(text + more);
    EXPECT_NE(errors.find(why), std::string::npos) << errors;
  };
  refused("merged_nics = 9\n", "merged_nics");
  refused("merged_nics = 2\nnccl = \"2.19\"\n", "one device of 1 at most");
  refused("merged_nics = 4\nnccl = \"2.23\"\n", "one device of 2 at most");
  const std::string port = "[[port]]\nreal = \"gpu\"\nnic = 1\ndevice = \"virtual\"\n";
  std::string without = text + "merged_nics = 2\n";
  without.erase(without.find(port), port.size());
  EXPECT_NE(errors_of(without).find("there is no [[port]] for NIC 1"), std::string::npos);
}

}  // namespace
}  // namespace understudy
