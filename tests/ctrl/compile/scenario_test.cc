// What compiling makes of a configuration, and what it refuses before there is a run.
#include "ctrl/compile/scenario.h"

#include <gtest/gtest.h>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

/// Two real nodes with two NICs each, a port for each of these, and emulated nodes.
std::string nodes() {
  std::string text =
      "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.0.0.0/24\"\n"
      "[[prefix]]\nnic = 1\nv4 = \"10.1.0.0/24\"\n";
  for (const char* real : {"a", "b"}) {
    text += std::string("[[node]]\nname = \"") + real +
            "\"\nreal = true\nnics = 2\nlink = { rate = \"400Gbit/s\", latency = \"1us\" }\n";
  }
  text +=
      "[[node]]\nname = \"w\"\ncount = 4\nnics = 2\n"
      "link = { rate = \"400Gbit/s\", latency = \"1us\" }\n";
  for (const char* real : {"a", "b"}) {
    for (const char* nic : {"0", "1"}) {
      text += std::string("[[port]]\nreal = \"") + real + "\"\nnic = " + nic +
              "\ndevice = \"virtual\"\n";
    }
  }
  return text;
}

std::string job(const std::string& ranks) {
  return "[[job]]\nname = \"j\"\nranks = [" + ranks +
         "]\ncollective = \"all_reduce\"\nsizes = [\"64KiB\"]\n";
}

Config config_of(const std::string& text) {
  ConfigResult config = load_config_text(text, "test");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()));
  return std::move(*config);
}

std::vector<PortList> groups(const Scenario& scenario) {
  std::vector<PortList> all;
  for (const ScenarioShard& shard : scenario.shards) all.push_back(shard.ports);
  return all;
}

std::string refusal(const Config& config, RunClock clock) {
  const auto scenario = compile_scenario({config}, clock);
  return scenario ? "" : scenario.error().text;
}

TEST(Scenario, PortsHaveAShardEachUnlessAJobJoinsThem) {
  const Config apart = config_of(nodes() + job("\"a\", \"w*\""));
  const auto one = compile_scenario({apart}, RunClock::kVirtual);
  ASSERT_TRUE(one) << one.error().text;
  EXPECT_EQ(groups(*one), (std::vector<PortList>{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(one->topology, nullptr);
  ASSERT_NE(one->jobs[0].setup, nullptr);
  EXPECT_EQ(one->jobs[0].setup->job.real, (std::vector<uint32_t>{0}));
  const Config joined = config_of(nodes() + job("\"a\", \"b\", \"w*\""));
  const auto both = compile_scenario({joined}, RunClock::kVirtual);
  ASSERT_TRUE(both) << both.error().text;
  EXPECT_EQ(groups(*both), (std::vector<PortList>{{0, 1, 2, 3}}));
}

TEST(Scenario, JobsWithoutARealRankHaveANetworkAndNoShard) {
  const Config config = config_of(
      "format = 1\n[[node]]\nname = \"w\"\ncount = 4\n"
      "link = { rate = \"400Gbit/s\", latency = \"1us\" }\n" +
      job("\"w*\""));
  const auto scenario = compile_scenario({config}, RunClock::kVirtual);
  ASSERT_TRUE(scenario) << scenario.error().text;
  EXPECT_NE(scenario->topology, nullptr);
  EXPECT_EQ(scenario->jobs[0].setup, nullptr);
  EXPECT_TRUE(scenario->shards.empty());
}

TEST(Scenario, RefusesWhatNoMachineCarriesInRealTime) {
  const Config config = config_of(
      nodes() +
      "[[traffic]]\npattern = \"incast\"\nfrom = [\"w1\"]\nto = [\"w0\"]\nsize = \"64B\"\n");
  EXPECT_EQ(refusal(config, RunClock::kVirtual), "");
  const std::string why = refusal(config, RunClock::kReal);
  const std::string place = "test:" + std::to_string(config.traffic.front().line) + ": traffic: ";
  EXPECT_EQ(why.rfind(place, 0), 0u) << why;
  EXPECT_NE(why.find("M events/s packet by packet"), std::string::npos) << why;
}

TEST(Scenario, NamesTheTableOfAnEventThatItRefuses) {
  const std::string what = "at = \"1ms\"\nswitch = \"leaf9\"\naction = \"down\"\n";
  for (const char* table : {"event", "drill.event"}) {
    const bool drilled = std::string(table) != "event";
    const std::string drill = "[[drill]]\nname = \"d\"\nrecovers_within = \"1s\"\n";
    const Config config = config_of(nodes() + job("\"a\", \"w*\"") + (drilled ? drill : "") + "[[" +
                                    table + "]]\n" + what);
    const std::string why = refusal(config, RunClock::kVirtual);
    EXPECT_NE(why.find(std::string(": ") + table + ".switch: found \"leaf9\""), std::string::npos)
        << why;
  }
}

TEST(Scenario, RefusesRatesThatAreSprayed) {
  const Config config = config_of(
      "format = 1\n[[node]]\nname = \"w\"\ncount = 4\n"
      "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n[fabric]\nfidelity = \"flow\"\n"
      "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 2\nspines = 2\n"
      "uplink = { rate = \"100Gbit/s\", latency = \"1us\" }\nrouting = \"spray\"\n"
      "[[traffic]]\npattern = \"incast\"\nfrom = [\"w1\"]\nto = [\"w0\"]\nsize = \"1MB\"\n");
  EXPECT_EQ(refusal(config, RunClock::kVirtual).rfind("test: topology.routing = \"spray\"", 0), 0u)
      << refusal(config, RunClock::kVirtual);
}

}  // namespace
}  // namespace understudy
