// Events of a run in virtual time: links down and up, losses, nodes that stand still, traffic that
// is started and stopped; with a real node over two links and through switches, and without one.
#include <utility>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

constexpr const char* kLeafSpine =
    "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 1\n"
    "uplink = { rate = \"10Gbit/s\", latency = \"2us\" }\n";

uint64_t dropped(const RunReport& report, const std::string& reason) {
  for (const auto& [name, count] : report.ports.at(0).drops) {
    if (name == reason) return count;
  }
  ADD_FAILURE() << reason;
  return 0;
}

uint64_t sum(const RunReport& report, const std::string& counter) {
  uint64_t total = 0;
  for (const TrafficLinkReport& link : report.traffic->links) {
    for (const auto& [name, count] : link.counters) total += name == counter ? count : 0;
  }
  return total;
}

Duration measured(const RunReport& report) { return report.jobs.at(0).collectives.at(0).measured; }

/// Why there is no report.
std::string error_of(const Config& config, const std::vector<std::string>& commands) {
  const auto report = compile_and_simulate(config, {}, parsed(config, commands));
  EXPECT_FALSE(report);
  return report ? "" : report.error().text;
}

/// A ring over two links, or through switches.
class SimulateEvents : public testing::TestWithParam<bool> {
 protected:
  Config ring(const std::string& sizes = "\"4MiB\"") {
    RingText text{.ranks = 4, .sizes = sizes};
    if (GetParam()) text.more = "[topology]\nkind = \"single_switch\"\n";
    return config_of(text.text());
  }
};

TEST_P(SimulateEvents, ALinkThatIsDownForAWhileCostsAtLeastThatTime) {
  const Config config = ring();
  const Duration plain = measured(simulated(config));
  const RunReport report = simulated(config, "", {"at 2.5ms link w0 down 3ms"});
  ASSERT_FALSE(report.jobs.at(0).failed);
  EXPECT_GE(measured(report), plain + Duration::ms(2));
  ASSERT_EQ(report.commands.size(), 1u);
  EXPECT_EQ(report.commands[0].text, "link w0 down 3ms");
  EXPECT_TRUE(report.closed.empty());
}

TEST_P(SimulateEvents, ALinkThatStaysDownFailsTheJobAndIsNamed) {
  const RunReport report = simulated(ring(), "", {"at 2.5ms link w0 down"});
  EXPECT_TRUE(report.jobs.at(0).failed);
  EXPECT_FALSE(report.verdict.faithful);
  ASSERT_FALSE(report.closed.empty());
  const std::string& reason = report.verdict.reasons.at(0);
  EXPECT_NE(reason.find("a queue pair failed, and at the end nothing came through w0"),
            std::string::npos)
      << reason;
}

TEST_P(SimulateEvents, LostPacketsAreSentAgain) {
  const RunReport report = simulated(ring("\"64MiB\""), "", {"at 2.5ms link w0 loss 0.001"});
  EXPECT_FALSE(report.jobs.at(0).failed);
  EXPECT_GT(dropped(report, "link_loss"), 0u);
  const RunReport again = simulated(ring("\"64MiB\""), "", {"at 2.5ms link w0 loss 0.001"});
  EXPECT_EQ(measured(again), measured(report));
}

TEST_P(SimulateEvents, ANodeThatStandsStillHoldsItsRingUp) {
  const Config config = ring();
  const Duration plain = measured(simulated(config));
  const RunReport report = simulated(config, "", {"at 2.5ms node w0 pause 3ms"});
  ASSERT_FALSE(report.jobs.at(0).failed);
  EXPECT_GE(measured(report), plain + Duration::ms(2));
  EXPECT_GT(dropped(report, "link_down"), 0u);
}

TEST_P(SimulateEvents, TheCaptureSaysWhatHappened) {
  const Config config = ring();
  const ScratchFile capture("events.pcapng");
  simulated(config, capture.path(), {"at 2.5ms link w0 down 100us", "at 3ms link w0 loss 0.001"});
  const Analysis analysis = judged(capture.path(), &config);
  EXPECT_EQ(analysis.findings.verdict(Check::kRate), Verdict::kHolds);
  EXPECT_EQ(analysis.findings.verdict(Check::kComplete), Verdict::kHolds);
}

INSTANTIATE_TEST_SUITE_P(Lanes, SimulateEvents, testing::Bool(),
                         [](const auto& info) { return info.param ? "Switches" : "TwoLinks"; });

TEST(SimulateEventsSwitched, ACableBetweenSwitchesGoesDownAndUp) {
  RingText ring{.ranks = 8, .sizes = "\"4MiB\"", .more = kLeafSpine};
  const Config config = config_of(ring.text());
  const Duration plain = measured(simulated(config));
  const RunReport report = simulated(config, "", {"at 3ms link leaf0 - spine0 down 3ms"});
  ASSERT_FALSE(report.jobs.at(0).failed);
  EXPECT_GE(measured(report), plain + Duration::ms(2));
  EXPECT_GT(sum(report, "lost_by_outage"), 0u);
}

constexpr const char* kTwoSpines =
    "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
    "uplink = { rate = \"10Gbit/s\", latency = \"2us\" }\n";

/// A ring of eight over two leaves, one of whose nodes is real.
Config ring_of_eight(const std::string& topology, const std::string& inner = "packets",
                     const std::string& more = "") {
  RingText ring{.ranks = 8, .sizes = "\"4MiB\"", .job = "inner = \"" + inner + "\"\n"};
  ring.more = topology + more;
  return config_of(ring.text());
}

// Queue pairs and messages between emulated ranks go around the spine.
TEST(SimulateEventsSwitched, ADeadSpineIsLeftOutWhereRoutingReacts) {
  for (const char* inner : {"packets", "times"}) {
    for (const char* spine : {"spine0", "spine1"}) {
      SCOPED_TRACE(std::string(inner) + " " + spine);
      const std::string command = std::string("at 2.5ms switch ") + spine + " down";
      const Config reacts =
          ring_of_eight(std::string(kTwoSpines) + "reconverge = \"100us\"\n", inner);
      const RunReport report = simulated(reacts, "", {command});
      EXPECT_FALSE(report.jobs.at(0).failed);
      EXPECT_EQ(report.jobs.at(0).collectives.size(), report.jobs.at(0).planned);
      EXPECT_EQ(report.closed.size(), 4u);
      ASSERT_EQ(report.outages.size(), 1u);
      EXPECT_EQ(report.outages[0].event, std::string("switch ") + spine + " down");
      EXPECT_EQ(report.outages[0].rerouted, Time::zero() + Duration::us(2'600));
    }
  }
}

TEST(SimulateEventsSwitched, RatesBesideARealNodeGoAroundItToo) {
  const std::string traffic =
      "[[traffic]]\nname = \"load\"\npattern = \"flow\"\nfrom = [\"w0\", \"w1\", \"w2\"]\n"
      "to = [\"w4\", \"w5\", \"w6\"]\nsize = \"1MB\"\nat = \"2ms\"\n";
  RingText ring{.ranks = 8, .sizes = "\"4MiB\"", .job = "inner = \"times\"\n"};
  ring.fabric = "fidelity = \"flow\"\n";
  const std::vector<std::string> both = {"at 2.5ms switch spine0 down",
                                         "at 2.5ms switch spine1 down"};
  ring.more = std::string(kTwoSpines) + "reconverge = \"100us\"\n" + traffic;
  for (const std::string& command : both) {
    const RunReport report = simulated(config_of(ring.text()), "", {command});
    EXPECT_EQ(report.traffic->groups.at(0).ended, 3u);
  }
}

TEST(SimulateEventsSwitched, APortOfANicIsAsItsCable) {
  const Config config = ring_of_eight(kTwoSpines);
  const RunReport port = simulated(config, "", {"at 2.5ms node w0 nic 0 down 3ms"});
  const RunReport cable = simulated(config, "", {"at 2.5ms link w0 - leaf0 down 3ms"});
  ASSERT_FALSE(port.jobs.at(0).failed);
  EXPECT_EQ(measured(port), measured(cable));
  EXPECT_EQ(port.commands.at(0).text, "node w0 nic 0 down 3ms");
  EXPECT_EQ(port.outages.size(), 1u);
}

// The real node's queue pairs are all right: it waits for ranks that wait for others.
TEST(SimulateEventsSwitched, MessagesThatNeverComeEndTheRun) {
  const std::string why = error_of(ring_of_eight(kTwoSpines), {"at 2.5ms node w4 nic 0 down"});
  EXPECT_EQ(
      why.find("test.toml: a job never ends: nothing comes through w4 -> leaf1, leaf1 -> w4: a "
               "job's message from w"),
      0u)
      << why;
}

/// Traffic beside the ring, held until a command.
std::string held_traffic() {
  return std::string(kLeafSpine) +
         "[[traffic]]\nname = \"load\"\npattern = \"incast\"\nfrom = [\"w1\", \"w2\", \"w4\"]\n"
         "to = [\"w0\"]\nsize = \"40MB\"\nstart = \"command\"\n";
}

class SimulateTraffic : public testing::TestWithParam<const char*> {};

TEST_P(SimulateTraffic, IsStartedAndStoppedBesideARealNode) {
  RingText ring{.ranks = 8, .sizes = "\"4MiB\"", .job = "inner = \"times\"\n"};
  ring.fabric = std::string("fidelity = \"") + GetParam() + "\"\n";
  ring.more = held_traffic();
  const Config config = config_of(ring.text());
  const RunReport quiet = simulated(config);
  EXPECT_EQ(quiet.traffic->groups.at(0).ended, 0u);
  const RunReport loaded = simulated(config, "", {"at 2ms traffic load start"});
  EXPECT_EQ(loaded.traffic->groups.at(0).ended, 3u);
  EXPECT_GE(loaded.traffic->groups.at(0).start, Time::zero() + Duration::ms(2));
  EXPECT_GT(measured(loaded), measured(quiet));
  const RunReport stopped =
      simulated(config, "", {"at 2ms traffic load start", "at 2.2ms traffic load stop"});
  EXPECT_EQ(stopped.traffic->groups.at(0).ended, 0u);
  EXPECT_LT(measured(stopped), measured(loaded));
}

TEST_P(SimulateTraffic, IsStartedAndStoppedWithoutARealNode) {
  const std::string text = std::string("format = 1\n[fabric]\nfidelity = \"") + GetParam() +
                           "\"\n[[node]]\nname = \"w\"\ncount = 8\n"
                           "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n" +
                           held_traffic() +
                           "[[traffic]]\nname = \"other\"\npattern = \"flow\"\nfrom = [\"w5\"]\n"
                           "to = [\"w6\"]\nsize = \"1MB\"\n";
  const Config config = config_of(text);
  const RunReport never = simulated(config);
  EXPECT_EQ(never.traffic->groups.at(0).ended, 0u);
  EXPECT_EQ(never.traffic->groups.at(1).ended, 1u);
  const RunReport once = simulated(config, "", {"at 5ms traffic load start"});
  const RunReport twice = simulated(
      config, "",
      {"at 5ms traffic load start", "at 6ms traffic load stop", "at 16ms traffic 1 start"});
  ASSERT_EQ(once.traffic->groups.at(0).ended, 3u);
  ASSERT_EQ(twice.traffic->groups.at(0).ended, 3u);
  const double more =
      (twice.traffic->groups.at(0).took - once.traffic->groups.at(0).took).seconds();
  // Packets of three senders that wait in front of the receiver go on arriving, for 2 ms.
  EXPECT_NEAR(more, std::string(GetParam()) == "packet" ? 8e-3 : 10e-3, 0.05e-3);
}

TEST_P(SimulateTraffic, ThatALinkKeepsForEverEndsTheRunWithItsName) {
  const std::string text = std::string("format = 1\n[fabric]\nfidelity = \"") + GetParam() +
                           "\"\n[[node]]\nname = \"w\"\ncount = 8\n"
                           "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n" +
                           kLeafSpine +
                           "[[traffic]]\nname = \"far\"\npattern = \"flow\"\nfrom = [\"w1\"]\n"
                           "to = [\"w6\"]\nsize = \"4MB\"\n"
                           "[[traffic]]\nname = \"near\"\npattern = \"flow\"\nfrom = [\"w0\"]\n"
                           "to = [\"w2\"]\nsize = \"4MB\"\n";
  const Config config = config_of(text);
  const std::string flow =
      std::string("\"far 0\" from w1 to w6 ") +
      (std::string(GetParam()) == "flow" ? "waits" : "gave up after 7 retries");
  EXPECT_EQ(error_of(config, {"at 1ms link leaf0 -> spine0 down"}),
            "test.toml: 1 of 2 flows never end: nothing comes through leaf0 -> spine0: " + flow);
  EXPECT_EQ(
      error_of(config, {"at 1ms node w1 pause"}),
      "test.toml: 1 of 2 flows never end: nothing comes through w1 -> leaf0, leaf0 -> w1: " + flow);
  const RunReport later = simulated(config, "", {"at 1ms link leaf0 -> spine0 down 100ms"});
  EXPECT_GT(later.duration, Duration::ms(100));
}

INSTANTIATE_TEST_SUITE_P(Fidelity, SimulateTraffic, testing::Values("packet", "flow"),
                         [](const auto& info) { return std::string(info.param); });

TEST(SimulateEventsRefused, WhatCannotWorkIsNamedWithItsLine) {
  const auto why = [](const std::string& event, const std::string& more = "",
                      const std::string& fabric = "") {
    RingText ring{.ranks = 4};
    ring.more = more + "[[event]]\nat = \"1ms\"\n" + event;
    ring.fabric = fabric;
    return error_of(config_of(ring.text()), {});
  };
  EXPECT_NE(why("node = \"gpu\"\naction = \"pause\"\n").find("only emulated ones can be paused"),
            std::string::npos);
  const std::string cable = "link = \"leaf0 - spine0\"\naction = \"down\"\n";
  const std::string no_network = why(cable);
  EXPECT_NE(no_network.find("there is no network of switches"), std::string::npos);
  EXPECT_EQ(no_network.find("test.toml:"), 0u);
  EXPECT_EQ(no_network.find("test.toml: "), std::string::npos) << "no line";
  EXPECT_NE(why("link = \"leaf0 - spine7\"\naction = \"down\"\n", kLeafSpine)
                .find("nothing is called \"spine7\" (did you mean \"spine0\"?)"),
            std::string::npos);
  EXPECT_NE(why("link = \"w0 - spine0\"\naction = \"down\"\n", kLeafSpine).find("no cable matches"),
            std::string::npos);
}

}  // namespace
}  // namespace understudy
