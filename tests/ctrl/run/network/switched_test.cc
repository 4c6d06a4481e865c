// A real node and emulated ones with switches in between: the same packets, times and verdicts as
// over two links where the network is one switch; and what queues, other traffic, loss and changes
// do to a collective.
#include <gtest/gtest.h>

#include "ctrl/compile/capabilities.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/traffic/real_time_budget.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

constexpr const char* kLeafSpine =
    "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
    "uplink = { rate = \"10Gbit/s\", latency = \"2us\" }\n";

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Duration measured(const RunReport& report, size_t i = 0) {
  return report.jobs.at(0).collectives.at(i).measured;
}

uint64_t sum(const RunReport& report, const std::string& counter) {
  uint64_t total = 0;
  for (const TrafficLinkReport& link : report.traffic->links) {
    for (const auto& [name, count] : link.counters) total += name == counter ? count : 0;
  }
  return total;
}

uint64_t dropped(const RunReport& report, const std::string& reason) {
  for (const auto& [name, count] : report.ports.at(0).drops) {
    if (name == reason) return count;
  }
  ADD_FAILURE() << reason;
  return 0;
}

TEST(SimulateSwitched, OneSwitchIsTheTwoLinksOfAPath) {
  RingText ring{.sizes = "\"64KiB\", \"1MiB\"", .job = "payload = \"exact\"\ninner = \"times\"\n"};
  const ScratchFile links("links.pcapng"), with("switch.pcapng");
  const RunReport without = simulated(config_of(ring.text()), links.path());
  ring.more = "[topology]\nkind = \"single_switch\"\n";
  const RunReport switched = simulated(config_of(ring.text()), with.path());
  EXPECT_EQ(bytes_of(links.path()), bytes_of(with.path()));
  ASSERT_FALSE(bytes_of(links.path()).empty());
  EXPECT_EQ(measured(switched, 1), measured(without, 1));
  EXPECT_TRUE(switched.verdict.faithful);
}

TEST(SimulateSwitched, AnIdleNetworkTakesThePlansTime) {
  RingText ring{.ranks = 16, .sizes = "\"4MiB\"", .more = kLeafSpine};
  const RunReport report = simulated(config_of(ring.text()));
  const auto& c = report.jobs.at(0).collectives.at(0);
  EXPECT_NEAR(c.measured.seconds() / c.modelled.seconds(), 1, 0.005);
  EXPECT_TRUE(report.verdict.faithful);
  // Both of the real node's neighbours: its own leaf's, and one behind the spines.
  EXPECT_GT(sum(report, "packets"), 0u);
  EXPECT_EQ(sum(report, "lost_buffer_full"), 0u);
}

TEST(SimulateSwitched, OtherTrafficHoldsTheCollectiveUp) {
  RingText ring{.ranks = 8, .sizes = "\"1MiB\"", .more = kLeafSpine};
  const Duration alone = measured(simulated(config_of(ring.text())));
  ring.more +=
      "[[traffic]]\npattern = \"incast\"\nfrom = [\"w1\", \"w2\"]\nto = [\"gpu\"]\nsize = "
      "\"2MB\"\n";
  const Config config = config_of(ring.text());
  const RunReport report = simulated(config);
  // The last link carries 4 MB more than the collective's 1.75: at least their time.
  EXPECT_GT((measured(report) - alone).seconds(), 4e6 * 8 / 10e9 * 0.9);
  ASSERT_EQ(report.traffic->groups.size(), 1u);
  EXPECT_EQ(report.traffic->groups[0].ended, 2u);
  EXPECT_EQ(measured(simulated(config)), measured(report));
}

TEST(SimulateSwitched, FlowsTakeTheirShareOfTheLinks) {
  // Nobody else needs the link to the real node: half of it goes to a flow that lasts longer.
  RingText ring{.ranks = 8, .sizes = "\"4MiB\"", .more = kLeafSpine};
  ring.job = "inner = \"times\"\n";
  const Duration alone = measured(simulated(config_of(ring.text())));
  ring.fabric = "fidelity = \"flow\"\n";
  const auto with = [&](const std::string& from) {
    RingText loaded = ring;
    loaded.more +=
        "[[traffic]]\npattern = \"flow\"\nfrom = \"w1\"\nto = \"gpu\"\nsize = \"40MB\"\n" + from;
    return simulated(config_of(loaded.text()));
  };
  const RunReport half = with("");
  EXPECT_NEAR(measured(half).seconds() / alone.seconds(), 2, 0.02);
  EXPECT_EQ(half.traffic->fidelity, "flow");
  EXPECT_EQ(half.traffic->groups.at(0).ended, 1u);
  EXPECT_EQ(measured(with("at = \"1s\"\n")), alone);
}

TEST(SimulateSwitched, FlowsHearOfChangesToo) {
  // The flow's sender has 1 Gbit/s from the start: 9 are left for the ring.
  RingText ring{.ranks = 8, .sizes = "\"4MiB\"", .more = kLeafSpine};
  const Duration alone = measured(simulated(config_of(ring.text())));
  ring.fabric = "fidelity = \"flow\"\n";
  ring.more += "[[traffic]]\npattern = \"flow\"\nfrom = \"w1\"\nto = \"gpu\"\nsize = \"40MB\"\n";
  const RunReport told = simulated(config_of(ring.text()), "", {"at 1us link w1 rate 1Gbit/s"});
  EXPECT_NEAR(measured(told).seconds() / alone.seconds(), 10.0 / 9, 0.02);
  // 40 MB and the headers of 9,766 packets.
  EXPECT_NEAR(told.traffic->flows.at(0).received->seconds(), (40e6 + 9766 * 82) * 8 / 1e9, 1e-4);
  ring.more += "[[event]]\nat = \"1us\"\nlink = \"w1\"\nrate = \"1Gbit/s\"\n";
  EXPECT_EQ(measured(simulated(config_of(ring.text()))), measured(told));
}

TEST(SimulateSwitched, AChangeConcernsAllNicsOfItsNode) {
  RingText ring{.ranks = 4, .sizes = "\"64KiB\""};
  ring.more =
      "[[prefix]]\nnic = 1\nv4 = \"10.8.0.0/16\"\n[topology]\nkind = \"single_switch\"\n"
      "[[traffic]]\npattern = \"flow\"\nfrom = \"w1\"\nto = \"w2\"\nnic = 1\nsize = \"1MB\"\n";
  std::string text = ring.text();
  for (const char* name : {"real = true\n", "count = 3\n"}) {
    text.insert(text.find(name), "nics = 2\n");
  }
  const auto took = [&](const std::vector<std::string>& commands) {
    return *simulated(config_of(text), "", commands).traffic->flows.at(0).received;
  };
  EXPECT_NEAR(took({"at 0ms link w1 rate 1Gbit/s"}).seconds() / took({}).seconds(), 10, 0.1);
}

TEST(SimulateSwitched, ADirectionOfTheRealNodesLinkMayBeSlower) {
  RingText ring{.ranks = 8, .sizes = "\"4MiB\"", .more = kLeafSpine};
  const Duration even = measured(simulated(config_of(ring.text())));
  ring.more += "[[topology.override]]\nlink = \"leaf0 -> gpu\"\nrate = \"5Gbit/s\"\n";
  const Duration slower = measured(simulated(config_of(ring.text())));
  EXPECT_NEAR(slower.seconds() / even.seconds(), 2, 0.02);
}

TEST(SimulateSwitched, LossIsRepairedAndCounted) {
  RingText ring{.ranks = 8,
                .sizes = "\"1MiB\"",
                .job = "payload = \"exact\"\n",
                .more = std::string(kLeafSpine) +
                        "[[topology.override]]\nlink = \"leaf0 - gpu\"\nloss = 0.005\n"};
  const RunReport report = simulated(config_of(ring.text()));
  EXPECT_GT(dropped(report, "link_loss"), 0u);
  EXPECT_EQ(dropped(report, "link_loss"), sum(report, "lost_on_link"));
  EXPECT_EQ(report.jobs.at(0).collectives.at(0).wrong_elements, 0u);
}

TEST(SimulateSwitched, PfcHoldsTheRealNodeAndNothingIsLost) {
  // The link to w0, the real node's successor, is slowed down: its leaf pauses the real node.
  RingText ring{.ranks = 8,
                .sizes = "\"2MiB\"",
                .job = "channels = 4\n",
                .more = std::string(kLeafSpine) +
                        "[[topology.override]]\nlink = \"leaf0 -> w0\"\nrate = \"1Gbit/s\"\n"
                        "[queues]\nbuffer = \"400KB\"\n[[queues.class]]\n"
                        "pfc = { xoff = \"50KB\", xon = \"40KB\", headroom = \"auto\" }\n"};
  const RunReport report = simulated(config_of(ring.text()));
  EXPECT_GT(sum(report, "pauses"), 0u);
  EXPECT_EQ(sum(report, "lost_buffer_full") + sum(report, "lost_headroom_full"), 0u);
  EXPECT_FALSE(report.jobs.at(0).failed);
}

TEST(SimulateSwitched, ALinkChangesDuringTheRun) {
  RingText ring{.ranks = 8, .sizes = "\"1MiB\"", .job = "iterations = 2\n", .more = kLeafSpine};
  const Config config = config_of(ring.text());
  const Duration before = measured(simulated(config));
  const RunReport report = simulated(config, "", {"at 2.5ms link w0 rate 1Gbit/s"});
  EXPECT_EQ(measured(report, 0), before);
  EXPECT_GT(measured(report, 1).seconds(), 5 * before.seconds());
}

TEST(SimulateSwitched, WhatItCannotDoIsNamed) {
  const auto why = [](const RingText& ring) {
    const Config config = config_of(ring.text());
    const std::string run = why_not({config}, RunClock::kReal);
    EXPECT_EQ(why_not({config}, RunClock::kVirtual), run);
    return run;
  };
  RingText ring{.more = kLeafSpine};
  EXPECT_EQ(why(ring), "");
  ring.control_class = "separate";
  EXPECT_EQ(
      why(ring),
      "test.toml: fabric.control_class: found \"separate\": no meaning with [topology], [queues], "
      "[[traffic]] or job.inner = \"packets\": classes are those of [queues]");
  ring.control_class = "shared";
  ring.fabric = "pacing = false\n";
  EXPECT_EQ(why(ring),
            "test.toml: fabric.pacing: found false: no meaning with [topology], [queues], "
            "[[traffic]] or job.inner = \"packets\": their links are paced");
  ring.fabric = "";
  ring.rate = "unlimited";
  ring.more = "[queues]\nbuffer = \"1MB\"\n";
  EXPECT_NE(why(ring).find("node.link.rate"), std::string::npos);
}

TEST(SimulateSwitched, RealTimeIsRefusedByWhatTrafficNeeds) {
  RingText ring{.ranks = 4};
  ring.more = "[[traffic]]\npattern = \"incast\"\nfrom = [\"w1\"]\nto = [\"w0\"]\nsize = \"4MB\"\n";
  const Config slow = config_of(ring.text());
  const Topology topology = build_topology(slow).value();
  auto run = SharedNetwork::create(slow, topology, false);
  ASSERT_TRUE(run);
  // 1 Gbit/s or 10, 977 packets and as many acknowledgements over two links each, two events a
  // link.
  const double needed = needed_events_per_second(slow, topology, (*run)->flows());
  const double seconds = (4e6 + 977 * 82.0) * 8 / 10e9;
  EXPECT_NEAR(needed, 977 * 8 / seconds, 1);
  EXPECT_GT(measured_events_per_second(), 1e3);
  std::vector<FlowSpec> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back((*run)->flows().at(0));
    many.back().bytes = 1;  // a packet of one byte each: more of them than any machine does
  }
  const auto fits = fits_real_time(slow, topology, many);
  ASSERT_FALSE(fits);
  EXPECT_NE(fits.error().text.find("M events/s packet by packet; this machine does"),
            std::string::npos);
}

}  // namespace
}  // namespace understudy
