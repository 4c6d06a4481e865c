// Runs of [[traffic]] from the configuration to the report, above all with flows as rates.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/report/json.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

constexpr char kNodes[] =
    "format = 1\n"
    "[[node]]\nname = \"w\"\ncount = 4\nlink = { rate = \"8Gbit/s\", latency = \"1us\" }\n"
    "[flows]\noverhead = \"0B\"\ngap = \"0B\"\n";
constexpr char kIncast[] =
    "[[traffic]]\nname = \"incast\"\npattern = \"incast\"\nfrom = [\"w1\", \"w2\"]\nto = \"w0\"\n"
    "size = \"1MB\"\nat = \"10us\"\n";
constexpr char kFlow[] = "[fabric]\nfidelity = \"flow\"\n";

Result<RunReport> run(const std::string& text) {
  const ConfigResult config = load_config_text(kNodes + text, "t.toml");
  if (!config) return fail(describe(config.error()));
  return compile_and_simulate(*config);
}

TEST(TrafficRun, FlowsAsRates) {
  const auto report = run(std::string(kFlow) + kIncast +
                          "[[traffic]]\nname = \"pair\"\npattern = \"flow\"\nfrom = \"w3\"\n"
                          "to = \"w1\"\nsize = \"4KB\"\nrepeat = 2\n");
  ASSERT_TRUE(report) << report.error().text;
  ASSERT_TRUE(report->traffic);
  const TrafficReport& traffic = *report->traffic;
  EXPECT_EQ(traffic.fidelity, "flow");
  ASSERT_EQ(traffic.groups.size(), 2u);
  const TrafficGroupReport& incast = traffic.groups[0];
  EXPECT_EQ(incast.name, "incast");
  EXPECT_EQ(incast.first, 0u);
  EXPECT_EQ(incast.count, 2u);
  EXPECT_EQ(incast.bytes, 2'000'000u);
  EXPECT_EQ(incast.start, Time::zero() + Duration::us(10));
  EXPECT_EQ(incast.took, Duration::us(2002));
  EXPECT_EQ(incast.mean, Duration::us(2002));
  EXPECT_EQ(incast.p99, Duration::us(2002));
  EXPECT_EQ(incast.longest, Duration::us(2002));
  ASSERT_EQ(traffic.flows.size(), 4u);
  EXPECT_EQ(traffic.flows[1].from, "w2");
  EXPECT_EQ(traffic.flows[1].to, "w0");
  EXPECT_EQ(traffic.flows[3].name, "pair 1");
  EXPECT_EQ(traffic.flows[3].start, Time::zero() + Duration::us(6));
  EXPECT_EQ(traffic.flows[3].received, Duration::us(6));
  EXPECT_FALSE(traffic.flows[3].acknowledged);
  uint64_t to_w0 = 0;
  for (const TrafficLinkReport& link : traffic.links) {
    EXPECT_LE(link.utilisation, 1);
    if (link.name == "switch0 -> w0") to_w0 = link.wire_bytes;
  }
  EXPECT_EQ(to_w0, 2'000'000u);
  EXPECT_EQ(report->duration, Duration::us(2012));
  EXPECT_TRUE(report->verdict.faithful);
  EXPECT_EQ(report->verdict.judged, 4u);
  const auto again = run(std::string(kFlow) + kIncast);
  EXPECT_EQ(report_json(*run(std::string(kFlow) + kIncast)), report_json(*again));
}

TEST(TrafficRun, BothFidelitiesAgreeWhereNothingQueues) {
  const std::string ring =
      "[[traffic]]\npattern = \"ring\"\nfrom = \"w*\"\nsize = \"1MB\"\nsteps = 6\n";
  const auto rates = run(kFlow + ring);
  const auto packets = run(ring);
  ASSERT_TRUE(rates) << rates.error().text;
  ASSERT_TRUE(packets) << packets.error().text;
  // What is missing: a packet's time through the switch at each step, acknowledgements.
  const double ratio =
      packets->traffic->groups[0].took.seconds() / rates->traffic->groups[0].took.seconds();
  EXPECT_GE(ratio, 1);
  EXPECT_LT(ratio, 1.03);
}

TEST(TrafficRun, EventsChangeRates) {
  const auto report = run(std::string(kFlow) + kIncast +
                          "[[event]]\nat = \"1010us\"\nlink = \"w0\"\nrate = \"4Gbit/s\"\n");
  ASSERT_TRUE(report) << report.error().text;
  EXPECT_EQ(report->traffic->groups[0].took, Duration::us(1000 + 2000 + 2));
  ASSERT_EQ(report->commands.size(), 1u);
  EXPECT_EQ(report->commands[0].text, "link w0 rate 4000000000bit/s");
}

// 100 packets of 1 us; the 51st would start when the change comes.
TEST(TrafficRun, EventsChangeLinksUnderPackets) {
  const auto came = [](const std::string& changes) {
    const auto report =
        run("payload = \"1000B\"\n[fabric]\nswitching = \"store-and-forward\"\n[[traffic]]\n"
            "pattern = \"flow\"\nfrom = \"w1\"\nto = \"w0\"\nsize = \"100KB\"\n" +
            changes);
    EXPECT_TRUE(report) << report.error().text;
    return report ? report->traffic->flows.at(0).received : Duration();
  };
  const std::string event = "[[event]]\nat = \"50us\"\nlink = \"w1\"\n";
  EXPECT_EQ(came(""), Duration::us(100 + 1 + 1 + 1));
  EXPECT_EQ(came(event + "rate = \"4Gbit/s\"\n"), Duration::us(50 + 2 * 50 + 1 + 1 + 1));
  EXPECT_EQ(came(event + "latency = \"5us\"\n"), Duration::us(100 + 5 + 1 + 1));
  EXPECT_EQ(came("[[event]]\nat = \"75us\"\nlink = \"w1\"\nrate = \"8Gbit/s\"\n" + event +
                 "rate = \"4Gbit/s\"\n"),
            Duration::us(50 + 2 * 13 + 37 + 1 + 1 + 1));
  // What comes when all is over is not waited for.
  EXPECT_EQ(came("[[event]]\nat = \"1s\"\nlink = \"w1\"\nrate = \"4Gbit/s\"\n"), came(""));
}

TEST(TrafficRun, Refused) {
  const auto sprayed = run(std::string(kFlow) + kIncast +
                           "[topology]\nkind = \"single_switch\"\nrouting = \"spray\"\n");
  ASSERT_FALSE(sprayed);
  EXPECT_NE(sprayed.error().text.find("fidelity"), std::string::npos) << sprayed.error().text;
  const auto down = run(std::string(kFlow) + kIncast +
                        "[topology]\nkind = \"single_switch\"\n[[topology.override]]\n"
                        "link = \"w1 -> switch0\"\ndown = [{ from = \"1ms\" }]\n");
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().text,
            "t.toml: 1 of 2 flows never end: nothing comes through w1 -> switch0: "
            "\"incast 0\" from w1 to w0 waits");
}

}  // namespace
}  // namespace understudy
