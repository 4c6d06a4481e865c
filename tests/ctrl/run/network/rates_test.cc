// Jobs of emulated ranks whose messages are flows with max-min fair rates (fabric.fidelity =
// "flow"), against the same jobs packet by packet.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/report/json.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

std::string nodes(unsigned count) {
  return "[[node]]\nname = \"w\"\ncount = " + std::to_string(count) +
         "\nlink = { rate = \"100Gbit/s\", latency = \"500ns\" }\n";
}

std::string leaf_spine(const std::string& uplink) {
  return "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\nuplink = { rate = \"" +
         uplink + "\", latency = \"1us\" }\n";
}

std::string job(const std::string& collective, const std::string& algorithm,
                const std::string& size, const std::string& more = "") {
  return "[[job]]\nname = \"" + collective + " " + size + "\"\ncollective = \"" + collective +
         "\"\n" + (algorithm.empty() ? "" : "algorithm = \"" + algorithm + "\"\n") +
         "ranks = [\"w*\"]\nsizes = [\"" + size + "\"]\n" + more;
}

Result<RunReport> run(const std::string& text, const std::string& fabric, bool timeline = false) {
  const ConfigResult config =
      load_config_text("format = 1\n[fabric]\n" + fabric + text, "rates.toml");
  if (!config) return fail(describe(config.error()) + text);
  SimulateOptions options;
  options.timeline = timeline;
  return compile_and_simulate(*config, options);
}

constexpr char kFlow[] = "fidelity = \"flow\"\n";

/// Of the last operation.
double took(const RunReport& report, size_t job = 0) {
  return report.traffic->jobs.at(job).operations.back().longest.seconds();
}

/// The time as rates over that packet by packet, less 1, of each job.
void expect_near(const std::string& name, const std::string& text, double low, double high) {
  for (const char* switching : {"", "switching = \"store-and-forward\"\n"}) {
    const auto rates = run(text, std::string(kFlow) + switching);
    const auto packets = run(text, switching);
    ASSERT_TRUE(rates) << rates.error().text;
    ASSERT_TRUE(packets) << packets.error().text;
    EXPECT_EQ(rates->traffic->fidelity, "flow");
    ASSERT_EQ(rates->traffic->jobs.size(), packets->traffic->jobs.size());
    for (size_t j = 0; j < rates->traffic->jobs.size(); ++j) {
      EXPECT_EQ(rates->traffic->jobs[j].messages, packets->traffic->jobs[j].messages);
      const double off = took(*rates, j) / took(*packets, j) - 1;
      std::printf("[ rates    ] %-44s %s%10.1f us by rates, %10.1f us by packets: %+6.2f %%\n",
                  name.c_str(), *switching == 0 ? "ct " : "sf ", took(*rates, j) * 1e6,
                  took(*packets, j) * 1e6, off * 100);
      EXPECT_GE(off, low) << name;
      EXPECT_LE(off, high) << name;
    }
  }
}

// The limits are those of docs/guides/networks.md.
TEST(SimulateRates, AgreesWithPacketsWhereNothingIsCongested) {
  for (const char* size : {"1MiB", "64MiB"}) {
    expect_near(std::string("ring all-reduce, 8 ranks, ") + size,
                nodes(8) + job("all_reduce", "ring", size), -0.01, 0.01);
  }
  expect_near("ring all-gather, 8 ranks in a leaf-spine, 8MiB",
              nodes(8) + leaf_spine("200Gbit/s") + job("all_gather", "ring", "8MiB"), -0.01, 0.01);
  // Credits and acknowledgements stand behind data in switches that store and forward.
  expect_near("ring all-reduce, 8 ranks, 8KiB", nodes(8) + job("all_reduce", "ring", "8KiB"), -0.06,
              0.01);
  // Packets of messages that share a link take turns, and one of them ends sooner.
  expect_near("tree all-reduce, 8 ranks, 1MiB", nodes(8) + job("all_reduce", "tree", "1MiB"), -0.01,
              0.05);
}

TEST(SimulateRates, AgreesWithPacketsWhereLinksAreShared) {
  expect_near("all-to-all, 8 ranks in a leaf-spine of 2:1, 8MiB",
              nodes(8) + leaf_spine("100Gbit/s") + job("all_to_all", "", "8MiB"), -0.01, 0.01);
  expect_near("ring all-reduce beside a flow",
              nodes(4) + job("all_reduce", "ring", "64MiB") +
                  "[[traffic]]\npattern = \"flow\"\nfrom = \"w3\"\nto = \"w2\"\nsize = \"1GB\"\n",
              -0.01, 0.01);
  expect_near("two jobs",
              nodes(4) + job("all_reduce", "ring", "16MiB") + job("all_gather", "ring", "16MiB"),
              -0.01, 0.01);
}

TEST(SimulateRates, EqualRunsGiveEqualReportsWithEverythingInThem) {
  const std::string text =
      nodes(8) + leaf_spine("100Gbit/s") + job("all_reduce", "tree", "1MiB", "channels = 2\n") +
      "[[traffic]]\nname = \"in\"\npattern = \"incast\"\nfrom = [\"w1\", \"w2\"]\nto = \"w0\"\n"
      "size = \"1MB\"\n";
  const auto a = run(text, kFlow, true), b = run(text, kFlow);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(report_json(*a), report_json(*b));
  const TrafficReport& traffic = *a->traffic;
  ASSERT_EQ(traffic.groups.size(), 1u);
  EXPECT_EQ(traffic.groups[0].ended, 2u);
  EXPECT_EQ(traffic.flows.size(), 2u);
  EXPECT_FALSE(traffic.links.empty());
  for (const TrafficLinkReport& link : traffic.links) EXPECT_LE(link.utilisation, 1.0);
  EXPECT_TRUE(a->verdict.faithful);
  size_t messages = 0;
  for (const TimelineTrack& track : a->timeline) {
    if (track.name.find("messages on their way") == std::string::npos) continue;
    messages += track.slices.size();
  }
  EXPECT_EQ(messages, traffic.jobs[0].messages);
}

TEST(SimulateRates, EventsAndOutagesReachJobs) {
  const std::string text = nodes(4) + job("all_reduce", "ring", "64MiB");
  const auto plain = run(text, kFlow);
  const std::string event = "[[event]]\nat = \"0s\"\nlink = \"w1\"\nrate = \"50Gbit/s\"\n";
  const auto slower = run(text + event, kFlow);
  ASSERT_TRUE(plain && slower);
  EXPECT_NEAR(took(*slower) / took(*plain), 2, 0.02);
  ASSERT_EQ(slower->commands.size(), 1u);
}

TEST(SimulateRates, SprayIsRefused) {
  const std::string spray =
      "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\nrouting = \"spray\"\n"
      "uplink = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
  const auto refused = run(nodes(8) + spray + job("all_reduce", "ring", "1MiB"), kFlow);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("spray"), std::string::npos) << refused.error().text;
}

}  // namespace
}  // namespace understudy
