// job.join, and the environment that `understudy env` makes of it.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "ctrl/compile/capabilities.h"
#include "ctrl/compile/node_environment.h"
#include "ctrl/config/read/load.h"
#include "tests/rigs/one_real_node.h"

namespace understudy {
namespace {

constexpr const char* kJob = R"([[job]]
name = "j"
collective = "all_gather"
sizes = ["64KiB"]
)";

std::string with(const std::string& job) {
  return OneRealNode{.rate = "100Gbit/s"}.text() + kJob + job + "\n";
}
constexpr const char* kRealFirst = "ranks = [\"gpu\", \"w*\"]\n";
constexpr const char* kEmulatedFirst = "ranks = [\"w*\", \"gpu\"]\n";

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
      {kRealFirst, "nccl = \"2.17\"\njoin = { file = \"f\" }", "communicators of 2.18 to 2.30"},
      {kRealFirst, "nccl = \"2.20\"\njoin = { comm_id = \"10.9.0.1:5\" }", "NCCL up to 2.21"},
      {kRealFirst, "nccl = \"2.29\"\njoin = { comm_id = \"10.9.0.1:5\" }", "not in its network"},
      {kRealFirst, "join = { com_id = \"10.9.0.1:5\" }", "comm_id"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.join);
    const std::string errors = errors_of(with(std::string(c.ranks) + c.join));
    EXPECT_NE(errors.find(c.words), std::string::npos) << errors;
    EXPECT_NE(errors.find("join.toml:2"), std::string::npos) << errors;  // a line of the job
  }
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

TEST(NodeEnvironment, HasTheReasonOfEachSetting) {
  const auto config = load_config_text(
      with(std::string(kRealFirst) +
           "algorithm = \"auto\"\nprotocol = \"ll\"\nchannels = 4\ntraffic_class = 106\n"
           "operations = \"fed\"\njoin = { comm_id = \"10.9.0.1:5555\" }\n"
           "[nccl]\nenvironment = { NCCL_PROTO = \"^LL128\" }"),
      "join.toml");
  ASSERT_TRUE(config) << describe(config.error());
  const auto job = joined_job(*config, "");
  ASSERT_TRUE(job) << job.error().text;
  const auto settings = node_settings(*config, **job);
  const auto value = [&](const std::string& name) -> std::string {
    const auto found = std::ranges::find(settings, name, &NodeSetting::name);
    return found == settings.end() ? "absent" : found->value;
  };
  EXPECT_EQ(value("NCCL_COMM_ID"), "'10.9.0.1:5555'");
  EXPECT_EQ(value("NCCL_MAX_NCHANNELS"), "4");
  EXPECT_EQ(value("NCCL_IB_TC"), "106");
  EXPECT_EQ(value("NCCL_ALGO"), "absent");
  EXPECT_EQ(value("NCCL_PROTO"), "'^LL128'");  // the configuration's own holds
  EXPECT_EQ(value("UNDERSTUDY_FEED"), "'10.9.0.2:7300'");
  for (const NodeSetting& setting : settings) EXPECT_FALSE(setting.reason.empty()) << setting.name;
  const std::string text = node_environment(*config, **job);
  EXPECT_NE(text.find("ranks: 0 of 4."), std::string::npos) << text;
  EXPECT_NE(text.find("0000:0000:0000:0000:0000:ffff:0a09:0001"), std::string::npos) << text;
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

TEST(NodeEnvironment, LeavesOutWhatAReleaseDoesNotKnow) {
  const auto config = load_config_text(
      with(std::string(kRealFirst) + "nccl = \"2.18\"\njoin = { file = \"uid\" }"), "join.toml");
  ASSERT_TRUE(config) << describe(config.error());
  const std::string text = node_environment(*config, config->jobs[0]);
  EXPECT_EQ(text.find("NCCL_RAS_ENABLE"), std::string::npos);
  EXPECT_EQ(text.find("NCCL_RUNTIME_CONNECT"), std::string::npos);
  EXPECT_EQ(text.find("NCCL_COMM_ID"), std::string::npos);
  EXPECT_NE(text.find("through the file uid"), std::string::npos);
}

/// What a shell that has sourced the script says of a variable; `before` is carried out first.
std::string sourced(const std::string& script, const std::string& before, const std::string& name) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("understudy-env-" + std::to_string(getpid()) + ".sh");
  std::ofstream(file) << script;
  const std::string command =
      before + ". " + file.string() + " 2>/dev/null; printf %s \"$" + name + "\"";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    out += static_cast<char>(c);
  }
  std::filesystem::remove(file);
  return out;
}

TEST(NodeEnvironment, TakesTheSoftNicWhereNoOtherDeviceIs) {
  // Its device is in no sysfs; the address is of documentation, so no NIC here has it.
  std::string text = with(std::string(kRealFirst) + "join = { file = \"uid\" }");
  for (size_t at = 0; (at = text.find("10.9.0.", at)) != std::string::npos;) {
    text.replace(at, 7, "192.0.2.");
  }
  const auto config = load_config_text(text, "join.toml");
  ASSERT_TRUE(config) << describe(config.error());
  const std::string script = node_environment(*config, config->jobs[0]);
  EXPECT_EQ(sourced(script, "", "NCCL_IB_HCA"), "=");
  EXPECT_EQ(sourced(script, "", "NCCL_IB_GID_INDEX"), "");
  for (const char* variable : {"UNDERSTUDY_SOFT_NIC=eth0; ", "UNDERSTUDY_SOFT_NIC_ADDRESS=a; "}) {
    EXPECT_EQ(sourced(script, variable, "NCCL_IB_HCA"), "=understudy0") << variable;
    EXPECT_EQ(sourced(script, variable, "NCCL_IB_GID_INDEX"), "0") << variable;
  }
  EXPECT_EQ(
      sourced(script, "UNDERSTUDY_SOFT_NIC=eth0 UNDERSTUDY_SOFT_NIC_NAME=soft; ", "NCCL_IB_HCA"),
      "=soft");
  // An interface may have several addresses: the device's is the one of the configuration.
  EXPECT_EQ(sourced(script, "UNDERSTUDY_SOFT_NIC=eth0; ", "UNDERSTUDY_SOFT_NIC_ADDRESS"),
            "192.0.2.1");
}

TEST(NodeEnvironment, KeepsTwoReleasesFromAskingForMlx5) {
  for (const auto& [release, wanted] :
       {std::pair{"2.27", false}, {"2.28", true}, {"2.29", true}, {"2.30", false}}) {
    const auto config = load_config_text(
        with(std::string(kRealFirst) + "nccl = \"" + release + "\"\njoin = { file = \"uid\" }"),
        "join.toml");
    ASSERT_TRUE(config) << describe(config.error());
    const std::string script = node_environment(*config, config->jobs[0]);
    EXPECT_EQ(script.find("export NCCL_GIN_TYPE=2\n") != std::string::npos, wanted) << release;
  }
}

TEST(NodeEnvironment, WantsOneJobThatIsJoined) {
  const auto config = load_config_text(with(kRealFirst), "join.toml");
  ASSERT_TRUE(config) << describe(config.error());
  EXPECT_NE(joined_job(*config, "").error().text.find("no job has a key join"), std::string::npos);
  EXPECT_NE(joined_job(*config, "j").error().text.find("is not NCCL's"), std::string::npos);
  EXPECT_NE(joined_job(*config, "k").error().text.find("no job is called"), std::string::npos);
}

}  // namespace
}  // namespace understudy
