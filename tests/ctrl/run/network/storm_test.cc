// PFC storms: a NIC that sends PAUSE without end, with and without a watchdog, by closed forms.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/read/load.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

/// Two nodes at one switch. A packet takes 1 us on a link of 8 Gbit/s, and each has 1 us of
/// latency.
std::string star(const std::string& queues, const std::string& more,
                 const std::string& rate = "8Gbit/s", const std::string& fidelity = "packet") {
  return "format = 1\n[fabric]\nfidelity = \"" + fidelity +
         "\"\n[[node]]\nname = \"w\"\ncount = 2\nlink = { rate = \"" + rate +
         "\", latency = \"1us\" }\n[queues]\nbuffer = \"1MB\"\n" + queues +
         "[[queues.class]]\npfc = { xoff = \"20KB\", xon = \"15KB\", headroom = \"auto\" }\n"
         "[flows]\npayload = \"1000B\"\noverhead = \"0B\"\ngap = \"0B\"\ntimeout = \"10ms\"\n" +
         more;
}

std::string flow(unsigned packets, const std::string& at = "0s") {
  return "[[traffic]]\nname = \"far\"\npattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"" +
         std::to_string(packets) + "KB\"\nat = \"" + at + "\"\n";
}

std::string storm(const std::string& at, const std::string& lasts, const std::string& more = "") {
  return "[[event]]\nat = \"" + at + "\"\nnode = \"w1\"\naction = \"storm\"\n" +
         (lasts.empty() ? "" : "for = \"" + lasts + "\"\n") + more;
}

Result<RunReport> run(const std::string& text) {
  const ConfigResult config = load_config_text(text, "t.toml");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()));
  if (!config) return fail("no configuration");
  return compile_and_simulate(*config);
}

RunReport report_of(const std::string& text) {
  auto report = run(text);
  EXPECT_TRUE(report) << (report ? "" : report.error().text);
  return report ? std::move(*report) : RunReport{};
}

Duration received(const RunReport& report) {
  return report.traffic->flows.at(0).received.value_or(Duration());
}

const TrafficLinkReport& last_link(const RunReport& report) {
  for (const TrafficLinkReport& link : report.traffic->links) {
    if (link.name == "switch0 -> w1") return link;
  }
  ADD_FAILURE();
  return report.traffic->links.at(0);
}

uint64_t count(const TrafficLinkReport& link, const std::string& name) {
  for (const auto& [known, value] : link.counters) {
    if (known == name) return value;
  }
  return 0;
}

// Packet k starts at the switch at k + 1 us. Packet 20 waits until the storm is over; the 80 that
// are left then go back to back: of those the buffer has more than a round trip to w0 needs.
TEST(PfcStorm, WithoutAWatchdogAllWaitUntilItIsOver) {
  const RunReport report =
      report_of(star("", flow(100) + storm("20500ns", "50us", "quanta = 100\n")));
  EXPECT_EQ(received(report), Duration::ns(70'500) + Duration::us(80 + 1));
  const TrafficLinkReport& link = last_link(report);
  EXPECT_EQ(link.paused, Duration::us(50));
  ASSERT_TRUE(link.first_pause);
  EXPECT_EQ(*link.first_pause, Time::zero() + Duration::ns(20'500));
  // A hundred times 512 bits are 6.4 us.
  EXPECT_EQ(count(link, "storm_pauses"), 8u);
  EXPECT_EQ(count(link, "pauses"), 8u);
  EXPECT_EQ(count(link, "resumes"), 1u);
  EXPECT_EQ(count(link, "lost_headroom_full"), 0u);
  // Packet 21 left after it had begun, and comes behind packet 20.
  ASSERT_EQ(report.outages.size(), 1u);
  EXPECT_EQ(report.outages[0].longest, Duration::us(50 + 1 + 2));
  const RunReport rates =
      report_of(star("", flow(100) + storm("20500ns", "50us"), "8Gbit/s", "flow"));
  EXPECT_EQ(received(rates), Duration::us(100 + 50 + 2));
}

// The second one begins in the first one and outlasts it.
TEST(PfcStorm, TwoAtOnceAreOverWithTheLast) {
  const RunReport report =
      report_of(star("", flow(100) + storm("20500ns", "50us") + storm("60500ns", "30us")));
  EXPECT_EQ(received(report), Duration::ns(90'500) + Duration::us(80 + 1));
  EXPECT_EQ(last_link(report).paused, Duration::us(70));
  EXPECT_EQ(count(last_link(report), "storm_pauses"), 2u);
  EXPECT_EQ(count(last_link(report), "resumes"), 1u);
}

// 65,535 quanta last 335.5392 us at 100 Gbit/s.
TEST(PfcStorm, PausesAreAsManyAsItTakes) {
  for (const auto& [lasts, pauses] :
       {std::pair{"1ms", 3u}, {"335539200ps", 1u}, {"335539201ps", 2u}}) {
    const RunReport report = report_of(star("", flow(100) + storm("0s", lasts), "100Gbit/s"));
    EXPECT_EQ(count(last_link(report), "storm_pauses"), pauses) << lasts;
  }
}

TEST(PfcStorm, TheWatchdogFindsItAtItsPolls) {
  struct Row {
    const char* watchdog;
    const char* at;    // of the first PAUSE
    const char* flow;  // when that has a packet in the queue
    int64_t detected;  // ms
  };
  for (const Row& row : {Row{"poll = \"100ms\", polls = 2", "0s", "0s", 200},
                         Row{"poll = \"100ms\", polls = 2", "1us", "0s", 300},
                         Row{"poll = \"100ms\", polls = 2", "250ms", "260ms", 500},
                         Row{"poll = \"200ms\", polls = 1", "399999us", "410ms", 600}}) {
    SCOPED_TRACE(row.at);
    const RunReport report = report_of(
        star(std::string("pfc_watchdog = { ") + row.watchdog + ", restore = \"200ms\" }\n",
             flow(100, row.flow) + storm(row.at, "1s")));
    const TrafficLinkReport& link = last_link(report);
    ASSERT_EQ(link.storms_detected.size(), 1u);
    EXPECT_EQ(link.storms_detected[0], Time::zero() + Duration::ms(row.detected));
    EXPECT_EQ(count(link, "storms_detected"), 1u);
    EXPECT_GT(count(link, "lost_by_watchdog"), 0u);
  }
}

// One packet, sent again every 10 ms. What waits at 200 ms is dropped, and what comes later, until
// there has been no PAUSE for 200 ms; the next one comes through.
TEST(PfcStorm, TheWatchdogDropsUntilItHasBeenQuiet) {
  const std::string watchdog = "pfc_watchdog = { action = \"drop\" }\n";
  const RunReport report = report_of(star(watchdog, flow(1) + storm("0s", "1s")));
  EXPECT_EQ(received(report), Duration::ms(1200) + Duration::us(1 + 2));
  EXPECT_EQ(count(last_link(report), "lost_by_watchdog"), 20u + 100u);
  // Who is not paused meanwhile goes on as before.
  EXPECT_EQ(last_link(report).paused, Duration::s(1));
}

TEST(PfcStorm, OrSendsThemAllTheSame) {
  const std::string watchdog = "pfc_watchdog = { action = \"forward\" }\n";
  const RunReport report = report_of(star(watchdog, flow(1) + storm("0s", "1s")));
  EXPECT_EQ(received(report), Duration::ms(200) + Duration::us(1 + 1));
  EXPECT_EQ(count(last_link(report), "lost_by_watchdog"), 0u);
  EXPECT_EQ(last_link(report).paused, Duration::ms(200));
}

TEST(PfcStorm, OneWithoutEndEndsTheRun) {
  for (const char* fidelity : {"packet", "flow"}) {
    const auto report = run(star("", flow(100) + storm("20us", ""), "8Gbit/s", fidelity));
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().text.find("t.toml: 1 of 1 flows never end: nothing comes through "
                                       "switch0 -> w1: \"far 0\" from w0 to w1 "),
              0u)
        << report.error().text;
  }
  const auto dropped = run(star("pfc_watchdog = {}\n", flow(100) + storm("20us", "")));
  ASSERT_FALSE(dropped);
  EXPECT_NE(dropped.error().text.find("gave up after 7 retries"), std::string::npos)
      << dropped.error().text;
}

TEST(PfcStorm, WhatCannotStormIsNamed) {
  const auto why = [](const std::string& text) {
    const auto report = run(text);
    EXPECT_FALSE(report);
    return report ? "" : report.error().text;
  };
  const std::string lossy =
      "format = 1\n[[node]]\nname = \"w\"\ncount = 2\nlink = { rate = "
      "\"8Gbit/s\", latency = \"1us\" }\n" +
      flow(1);
  EXPECT_NE(why(lossy + storm("0s", "1s")).find("no class of [queues] has pfc"), std::string::npos);
  EXPECT_NE(why(star("", flow(1) + "[[event]]\nat = \"0s\"\nlink = \"w1 -> switch0\"\naction = "
                                   "\"storm\"\n"))
                .find("w1 -> switch0 does not lead to a NIC"),
            std::string::npos);
  EXPECT_NE(why(star("pfc_watchdog = {}\n", flow(1) + storm("0s", "1s"), "8Gbit/s", "flow"))
                .find("rates have no queues"),
            std::string::npos);
}

}  // namespace
}  // namespace understudy
