// A flow's ideal time is what it takes in a run in which nothing else is on the network.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/report/json.h"
#include "ctrl/report/table.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

constexpr char kNodes[] =
    "format = 1\n[[node]]\nname = \"w\"\ncount = 8\n"
    "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
/// From a leaf to a spine; the rate does not divide a picosecond.
constexpr char kSpines[] = "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n";
/// One after another, 1 ms apart, over one switch and over three; a packet, its border, and many.
constexpr char kAlone[] =
    "id,from,to,bytes,start\n"
    "a,w0,w5,1,0ms\nb,w0,w5,4096,1ms\nc,w1,w6,4097,2ms\nd,w2,w3,1000000,3ms\n"
    "e,w2,w7,1234567,4ms\nf,w5,w1,100KB,5ms\ng,w7,w6,8192B,6ms\n";

RunReport run(const std::string& text, const std::string& flows = kAlone) {
  const FileReader reader = [&flows](const std::string&, size_t) { return flows; };
  const ConfigResult config = load_config_text(
      kNodes + text + "[[traffic]]\npattern = \"file\"\nfile = \"f.csv\"\nslowdown = true\n",
      "t.toml", reader);
  if (!config) {
    ADD_FAILURE() << describe(config.error());
    return {};
  }
  auto report = compile_and_simulate(*config);
  if (!report) {
    ADD_FAILURE() << report.error().text;
    return {};
  }
  return std::move(*report);
}

void expect_ideal(const RunReport& report, size_t count) {
  ASSERT_TRUE(report.traffic);
  ASSERT_EQ(report.traffic->flows.size(), count);
  for (const FlowReport& flow : report.traffic->flows) {
    ASSERT_TRUE(flow.ideal && flow.received) << flow.name;
    // Parts of a picosecond are carried from one packet of a link to the next, of other flows too.
    EXPECT_NEAR(static_cast<double>(flow.received->ps()), static_cast<double>(flow.ideal->ps()), 4)
        << flow.name;
  }
  ASSERT_TRUE(report.traffic->groups[0].slowdowns);
  for (const FlowSlowdown& flow : *report.traffic->groups[0].slowdowns) {
    EXPECT_NEAR(flow.slowdown, 1.0, 1e-5);
  }
}

TEST(IdealTimes, AFlowAloneHasSlowdownOne) {
  for (const char* fabric :
       {"", "[fabric]\nfidelity = \"flow\"\n", "[fabric]\nswitching = \"store-and-forward\"\n",
        "[fabric]\nfidelity = \"flow\"\nswitching = \"store-and-forward\"\n",
        "[fabric]\ntime_resolution = \"1ns\"\n"}) {
    for (const char* uplink : {"37Gbit/s", "100Gbit/s", "400Gbit/s"}) {
      SCOPED_TRACE(std::string(fabric) + uplink);
      expect_ideal(run(std::string(fabric) + kSpines + "uplink = { rate = \"" + uplink +
                       "\", latency = \"600ns\" }\n"),
                   7);
    }
  }
}

TEST(IdealTimes, PacketsInSeveralPathsTakeThemInTurn) {
  expect_ideal(run(std::string(kSpines) +
                   "uplink = { rate = \"50Gbit/s\", latency = \"600ns\" }\nrouting = \"spray\"\n"),
               7);
}

TEST(IdealTimes, FramesAndPathsAreThoseOfTheRun) {
  expect_ideal(
      run(std::string(kSpines) + "uplink = { rate = \"25Gbit/s\", latency = \"3us\" }\n"
                                 "[flows]\npayload = \"1000B\"\noverhead = \"48B\"\ngap = \"0B\"\n",
          "id,from,to,bytes,start,via\na,w0,w4,999999,0ms,leaf0;spine1;leaf1\n"
          "b,w0,w4,10000,1ms,\n"),
      2);
}

TEST(IdealTimes, TwoThatShareALinkTakeTwiceAsLong) {
  const RunReport report =
      run("[fabric]\nfidelity = \"flow\"\n", "id,from,to,bytes\na,w0,w2,1MB\nb,w1,w2,1MB\n");
  ASSERT_TRUE(report.traffic && report.traffic->groups[0].slowdowns);
  for (const FlowSlowdown& flow : *report.traffic->groups[0].slowdowns) {
    EXPECT_NEAR(flow.slowdown, 2, 0.05);
    EXPECT_LT(flow.slowdown, 2);  // latencies are no twice as long
  }
}

TEST(IdealTimes, ReportsNameTimesAndDurations) {
  const RunReport report = run("");
  const std::string json = report_json(report);
  const FlowReport& flow = report.traffic->flows[1];
  for (const auto& [key, ps] :
       std::map<std::string, int64_t>{{"started_at_ps", Duration::ms(1).ps()},
                                      {"ended_at_ps", (Duration::ms(1) + *flow.received).ps()},
                                      {"duration_ps", flow.received->ps()},
                                      {"ideal_duration_ps", flow.ideal->ps()}}) {
    EXPECT_NE(json.find("\"" + key + "\": " + std::to_string(ps)), std::string::npos) << key;
  }
  EXPECT_NE(json.find("\"by_size\""), std::string::npos);
  EXPECT_NE(report_table(report).find("# slowdown of traffic 1"), std::string::npos);
}

TEST(IdealTimes, MoreFlowsThanAreListedHaveSlowdownsToo) {
  constexpr size_t kFlows = kMostListedFlows + 1;
  std::string flows = "id,from,to,bytes,start\n";
  for (size_t i = 0; i < kFlows; ++i) {
    flows += std::to_string(i) + ",w0,w1,100B," + std::to_string(10 * i) + "us\n";
  }
  const RunReport report = run("[fabric]\nfidelity = \"flow\"\n", flows);
  ASSERT_TRUE(report.traffic);
  EXPECT_TRUE(report.traffic->flows.empty());
  ASSERT_TRUE(report.traffic->groups[0].slowdowns);
  EXPECT_EQ(report.traffic->groups[0].slowdowns->size(), kFlows);
  EXPECT_NEAR(slowdown_of_all(*report.traffic->groups[0].slowdowns).largest, 1.0, 1e-5);
}

TEST(IdealTimes, WhatTakesNoTimeAloneHasNoSlowdown) {
  const ConfigResult config = load_config_text(
      "format = 1\n[[node]]\nname = \"w\"\ncount = 3\n"
      "link = { rate = \"unlimited\", latency = \"0us\" }\n"
      "[[traffic]]\npattern = \"incast\"\nfrom = [\"w0\", \"w2\"]\nto = \"w1\"\n"
      "size = \"100KB\"\nslowdown = true\n",
      "t.toml");
  ASSERT_TRUE(config);
  const auto report = compile_and_simulate(*config);
  ASSERT_TRUE(report && report->traffic);
  EXPECT_EQ(report->traffic->flows[0].ideal, Duration());
  EXPECT_EQ(report->traffic->groups[0].slowdowns->size(), 0u);
  EXPECT_EQ(report_table(*report).find("nan"), std::string::npos) << report_table(*report);
  EXPECT_NE(report_json(*report).find("\"slowdown\": null"), std::string::npos);
}

TEST(IdealTimes, WithoutBeingAskedThereAreNoSlowdowns) {
  const ConfigResult config = load_config_text(
      std::string(kNodes) +
          "[[traffic]]\npattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"1MB\"\n",
      "t.toml");
  ASSERT_TRUE(config);
  const auto report = compile_and_simulate(*config);
  ASSERT_TRUE(report);
  const std::string json = report_json(*report);
  for (const char* key : {"slowdown", "ideal_duration_ps"}) {
    EXPECT_EQ(json.find(key), std::string::npos) << key;
  }
  ASSERT_TRUE(report->traffic && report->traffic->flows[0].received);
  const FlowReport& flow = report->traffic->flows[0];
  for (const auto& [key, ps] :
       std::map<std::string, int64_t>{{"started_at_ps", 0},
                                      {"ended_at_ps", flow.received->ps()},
                                      {"duration_ps", flow.received->ps()}}) {
    EXPECT_NE(json.find("        \"" + key + "\": " + std::to_string(ps)), std::string::npos)
        << key;
  }
  EXPECT_EQ(report_table(*report).find("slowdown"), std::string::npos);
}

}  // namespace
}  // namespace understudy
