// The environment that `understudy env` makes of a job that is joined.
#include "ctrl/compile/environment/node_environment.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "ctrl/config/read/load.h"
#include "tests/extent.h"
#include "tests/rigs/joined_job.h"

namespace understudy {
namespace {

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

TEST(NodeEnvironment, LeavesOutWhatAReleaseDoesNotKnow) {
  const auto config = load_config_text(
      with(std::string(kRealFirst) + "nccl = \"2.18\"\njoin = { file = \"uid\" }"), "join.toml");
  ASSERT_TRUE(config) << describe(config.error());
  const std::string text = node_environment(*config, config->jobs[0]);
  EXPECT_EQ(text.find("# Environment of job \""), 0u);
  EXPECT_EQ(text.find("NCCL_RAS_ENABLE"), std::string::npos);
  EXPECT_EQ(text.find("NCCL_RUNTIME_CONNECT"), std::string::npos);
  EXPECT_EQ(text.find("NCCL_COMM_ID"), std::string::npos);
  EXPECT_NE(text.find("through the file uid"), std::string::npos);
}

/// A process has one environment for the communicators of a job and of those on its children.
TEST(NodeEnvironment, ChoosesByCollectiveWhereChildrenWantOthers) {
  struct Case {
    std::string nccl, algorithm, collective, child;
    std::string value;  ///< empty: none
    std::string words;
  };
  const Case cases[] = {
      {"2.28", "pat", "all_gather", "pat", "PAT", "algorithm of the job"},
      {"2.28", "pat", "all_reduce", "tree", "'AllReduce:Tree;AllGather:PAT'", "on its children"},
      {"2.28", "pat", "all_to_all", "ring", "PAT", "algorithm of the job"},
      {"2.28", "auto", "all_reduce", "tree", "AllReduce:Tree", "on its children"},
      {"2.23", "pat", "all_reduce", "tree", "", "from 2.24 on"},
      {"2.28", "pat", "all_gather", "ring", "", "\"j\" and \"k\" want PAT and Ring"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.nccl + " " + c.collective + " " + c.child);
    const auto config = load_config_text(
        with(std::string(kRealFirst) + "nccl = \"" + c.nccl + "\"\nalgorithm = \"" + c.algorithm +
             "\"\njoin = { file = \"uid\" }\n[[job]]\nname = \"k\"\nchild_of = "
             "\"j\"\nmembers = \"all\"\ncollective = \"" +
             c.collective + "\"\nsizes = [\"64KiB\"]\n" +
             (c.collective == "all_to_all" ? "" : "algorithm = \"" + c.child + "\"\n")),
        "join.toml");
    ASSERT_TRUE(config) << describe(config.error());
    const std::string text = node_environment(*config, config->jobs[0]);
    EXPECT_NE(text.find(c.words), std::string::npos) << text;
    const std::string set = "export NCCL_ALGO=" + c.value + "\n";
    EXPECT_EQ(text.find(c.value.empty() ? "export NCCL_ALGO" : set) != std::string::npos,
              !c.value.empty())
        << text;
  }
}

TEST(NodeEnvironment, SaysWhatOutagesAreToNcclsSettings) {
  const auto notes = [](const std::string& nccl, const std::string& environment) {
    const auto config = load_config_text(
        with(std::string(kRealFirst) + "nccl = \"" + nccl + "\"\njoin = { file = \"uid\" }\n" +
             "[nccl]\nenvironment = { " + environment + " }\n" +
             "[[event]]\nat = \"1s\"\nlink = \"w0\"\naction = \"down\"\nfor = \"5s\"\n"
             "[[drill]]\nname = \"death\"\nreports_within = \"60s\"\n"
             "[[drill.event]]\nat = \"9s\"\nnode = \"w1\"\naction = \"pause\"\n"
             "[[event]]\nat = \"20s\"\nlink = \"w1\"\naction = \"up\"\n"
             "[[event]]\nat = \"21s\"\nlink = \"w1\"\naction = \"down\"\n"
             "[[event]]\nat = \"23s\"\nlink = \"w1\"\naction = \"up\"\n"),
        "join.toml");
    EXPECT_TRUE(config) << describe(config.error());
    return config ? node_environment(*config, config->jobs[0]) : "";
  };
  const auto expect = [](const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << words << "\nis not in\n" << text;
  };
  const std::string older = notes("2.22", "");
  expect(older, "NCCL_IB_TIMEOUT 18 (default), NCCL_IB_RETRY_CNT 7 (default)");
  expect(older,
         "4.096 us * 2^18 = 1.074 s, 7 times at most; then the queue pair gives up, after 8.590 s");
  expect(older, "event at 1.000 s, w0: out for 5.000 s: queue pairs outlive it");
  expect(older,
         "drill \"death\", event at 9.000 s, w1: out for ever: LONGER than queue pairs live");
  expect(older, "event at 21.00 s, w1: out for 2.000 s: queue pairs outlive it");
  EXPECT_EQ(older.find("PORT_FAILOVER"), std::string::npos);
  const std::string newer = notes("2.30", "");
  expect(newer,
         "4.096 us * 2^20 = 4.295 s, 7 times at most; then the queue pair gives up, after 34.36 s");
  expect(newer, "tried for 59.50 s");
  expect(newer, "NCCL_IB_RESILIENCY_PORT_RECOVERY 0 (default)");
  const std::string given = notes("2.30", "NCCL_IB_TIMEOUT = \"14\", NCCL_IB_RETRY_CNT = \"3\"");
  expect(given, "2^14 = 67.11 ms, 3 times at most; then the queue pair gives up, after 268.4 ms");
  expect(given, "NCCL_IB_TIMEOUT 14 ([nccl] environment), NCCL_IB_RETRY_CNT 3 ([nccl]");
  expect(given, "w0: out for 5.000 s: LONGER than queue pairs live");
  expect(notes("2.30", "NCCL_IB_TIMEOUT = \"0\""), "queue pairs wait without an end");
}

/// What a shell says that sources the script; `before` is carried out first, `after` then.
std::string shell(const std::string& script, const std::string& before, const std::string& after) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("understudy-env-" + std::to_string(getpid()) + ".sh");
  std::ofstream(file) << script;
  const std::string command = before + ". " + file.string() + after;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    out += static_cast<char>(c);
  }
  std::filesystem::remove(file);
  return out;
}

/// Its value of a variable.
std::string sourced(const std::string& script, const std::string& before, const std::string& name) {
  return shell(script, before, " 2>/dev/null; printf %s \"$" + name + "\"");
}

/// A stand-in for /sys/class/infiniband: device mlx5_N has the RoCEv2 GID of 10.(9 + N).0.1.
class FakeDevices {
 public:
  explicit FakeDevices(const std::vector<int>& gid_indices) {
    for (size_t n = 0; n < gid_indices.size(); ++n) {
      const auto port = path_ / ("mlx5_" + std::to_string(n)) / "ports" / "1";
      std::filesystem::create_directories(port / "gid_attrs" / "types");
      std::filesystem::create_directories(port / "gids");
      const std::string index = std::to_string(gid_indices[n]);
      const char* digits = "9abcdef";
      std::ofstream(port / "gid_attrs" / "types" / index) << "RoCE v2\n";
      std::ofstream(port / "gids" / index)
          << "0000:0000:0000:0000:0000:ffff:0a0" << digits[n] << ":0001\n";
    }
  }
  FakeDevices(const FakeDevices&) = delete;
  ~FakeDevices() { std::filesystem::remove_all(path_); }

  /// The script, which looks here.
  std::string seen_by(std::string script) const {
    const std::string real = "/sys/class/infiniband";
    for (size_t at = 0; (at = script.find(real, at)) != std::string::npos;) {
      script.replace(at, real.size(), path_.string());
    }
    return script;
  }

 private:
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("understudy-sys-" + std::to_string(getpid()));
};

/// Nodes of several GPUs and NICs.
std::string of_gpus(unsigned gpus, unsigned nics, const std::string& job) {
  const auto numbers = [&](auto line) {
    std::string text;
    for (unsigned n = 0; n < nics; ++n) text += line(n);
    return text;
  };
  const std::string node = "gpus = " + std::to_string(gpus) + "\nnics = " + std::to_string(nics) +
                           "\nlink = { rate = \"50Gbit/s\", latency = \"1us\" }\n";
  return "format = 1\n" + numbers([](unsigned n) {
           return "[[prefix]]\nnic = " + std::to_string(n) + "\nv4 = \"10." +
                  std::to_string(9 + n) + ".0.0/24\"\n";
         }) +
         "[[node]]\nname = \"gpu\"\nreal = true\n" + node + "[[node]]\nname = \"w\"\ncount = 3\n" +
         node + numbers([](unsigned n) {
           return "[[port]]\nreal = \"gpu\"\nnic = " + std::to_string(n) +
                  "\ndevice = \"virtual\"\n";
         }) +
         kJob + kRealFirst + "join = { file = \"uid\" }\n" + job;
}

std::string environment(unsigned gpus, unsigned nics, const std::string& job) {
  const auto config = load_config_text(of_gpus(gpus, nics, job), "join.toml");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()));
  return config ? node_environment(*config, config->jobs[0]) : "";
}

TEST(NodeEnvironment, NamesTheNicsOfAllRanks) {
  const struct {
    unsigned gpus, nics;
    const char* job;
    const char* devices;
    const char* merge;
    const char* merged;
    const char* cross;
  } cases[] = {
      {2, 2, "", "=mlx5_0,mlx5_1", "0", "", "1"},
      {2, 4, "", "=mlx5_0,mlx5_1", "0", "", "1"},  // one for each
      {4, 2, "", "=mlx5_0,mlx5_1", "0", "", "1"},
      {2, 1, "", "=mlx5_0", "0", "", "0"},
      {1, 2, "nic = 1\n", "=mlx5_1", "0", "", "0"},
      {1, 4, "merged_nics = 2\n", "=mlx5_0,mlx5_1", "1", "mlx5_0,mlx5_1", "0"},
      {2, 2, "merged_nics = 2\n", "=mlx5_0,mlx5_1", "1", "mlx5_0,mlx5_1", "0"},
      {2, 4, "merged_nics = 2\n", "=mlx5_0,mlx5_1,mlx5_2,mlx5_3", "1",
       "mlx5_0,mlx5_1;mlx5_2,mlx5_3", "1"},
      {4, 6, "merged_nics = 3\n", "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5", "1",
       "mlx5_0,mlx5_1,mlx5_2;mlx5_3,mlx5_4,mlx5_5", "1"},
      {2, 4, "merged_nics = 2\nnccl = \"2.23\"\n", "=mlx5_0,mlx5_1,mlx5_2,mlx5_3", "1", "", "1"},
  };
  const FakeDevices devices({3, 3, 3, 3, 3, 3});
  SomeCases some(3);
  for (const auto& c : cases) {
    if (!some.take()) continue;
    SCOPED_TRACE(std::to_string(c.gpus) + " " + std::to_string(c.nics) + " " + c.job);
    const std::string script = devices.seen_by(environment(c.gpus, c.nics, c.job));
    EXPECT_EQ(sourced(script, "", "NCCL_IB_HCA"), c.devices);
    EXPECT_EQ(sourced(script, "", "NCCL_IB_MERGE_NICS"), c.merge);
    EXPECT_EQ(sourced(script, "", "NCCL_NET_FORCE_MERGE"), c.merged);
    EXPECT_EQ(sourced(script, "", "NCCL_IB_GID_INDEX"), "3");
    EXPECT_EQ(sourced(script, "", "NCCL_CROSS_NIC"), c.cross);
    // No interface of this machine has the address.
    const std::string said = shell(script, "", " 2>&1 >/dev/null");
    EXPECT_EQ(said.find("GID"), std::string::npos) << said;
    EXPECT_EQ(said.find("RDMA device"), std::string::npos) << said;
  }
}

TEST(NodeEnvironment, ChecksTheGidOfEachNic) {
  const std::string script = environment(2, 4, "merged_nics = 2\n");
  const auto said = [&](const std::vector<int>& indices) {
    return shell(FakeDevices(indices).seen_by(script), "", " 2>&1 >/dev/null");
  };
  EXPECT_NE(said({3, 3, 3, 5}).find("that of 10.12.0.1 is 5, of the first 3"), std::string::npos)
      << said({3, 3, 3, 5});
  EXPECT_NE(said({3, 3}).find("no RDMA device of this node has the RoCEv2 GID "
                              "0000:0000:0000:0000:0000:ffff:0a0c:0001"),
            std::string::npos)
      << said({3, 3});
  // The soft NIC is one device.
  const std::string soft = shell(script, "UNDERSTUDY_SOFT_NIC=eth0; ", " 2>&1 >/dev/null");
  EXPECT_NE(soft.find("10.10.0.1 and another address of the node are of one RDMA device, "
                      "understudy0"),
            std::string::npos)
      << soft;
}

TEST(NodeEnvironment, SaysWhichPortsHaveToBeOfOneCard) {
  const auto reason = [](const std::string& job) {
    const auto config = load_config_text(of_gpus(2, 4, job), "join.toml");
    const auto settings = node_settings(config.value(), config->jobs[0]);
    return std::ranges::find(settings, "NCCL_IB_MERGE_NICS", &NodeSetting::name)->reason;
  };
  EXPECT_NE(
      reason("merged_nics = 2\nnccl = \"2.23\"\n")
          .find("ports of one card only, and these have to be such: NICs 0 and 1, NICs 2 and 3"),
      std::string::npos);
  EXPECT_EQ(reason("merged_nics = 2\nnccl = \"2.24\"\n").find("one card"), std::string::npos);
}

TEST(NodeEnvironment, NeedsTheAddressOfEachNic) {
  std::string text = of_gpus(2, 4, "merged_nics = 2\n");
  EXPECT_TRUE(load_config_text(text, "join.toml"));
  const std::string prefix = "[[prefix]]\nnic = 3\nv4 = \"10.12.0.0/24\"\n";
  text.erase(text.find(prefix), prefix.size());
  const auto config = load_config_text(text, "join.toml");
  ASSERT_FALSE(config);
  const std::string errors = describe(config.error());
  EXPECT_NE(errors.find("NIC 3 of node gpu has no address"), std::string::npos) << errors;
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

/// NCCL_CROSS_NIC=0 takes the RMA proxy away (docs/nccl 3.16); GIN is not played.
TEST(NodeEnvironment, LeavesTheRmaProxyAndKeepsFromGin) {
  for (const auto& [release, cross_nic, gin] :
       {std::tuple{"2.28", "0", false}, {"2.29", "1", true}, {"2.30", "1", true}}) {
    const auto config = load_config_text(
        with(std::string(kRealFirst) + "nccl = \"" + release + "\"\njoin = { file = \"uid\" }"),
        "join.toml");
    ASSERT_TRUE(config) << describe(config.error());
    const std::string script = node_environment(*config, config->jobs[0]);
    EXPECT_NE(script.find("export NCCL_CROSS_NIC=" + std::string(cross_nic) + "\n"),
              std::string::npos)
        << release;
    EXPECT_EQ(script.find("export NCCL_SYM_GIN_KERNELS_ENABLE=0\n") != std::string::npos, gin)
        << release;
  }
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
