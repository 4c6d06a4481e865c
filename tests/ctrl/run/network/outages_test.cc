// Links and switches that go down, and a routing that reacts or does not: when flows come in, by
// closed forms, and what a run says that cannot end.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "ctrl/config/read/load.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

/// Packets of 1 us on every link, 1 us of latency each; w0 and w1 on a leaf each, two spines.
/// `topology` goes into [topology], `more` behind all.
std::string two_spines(const std::string& topology, const std::string& more,
                       const std::string& fidelity = "packet") {
  return "format = 1\n[fabric]\nfidelity = \"" + fidelity +
         "\"\n[[node]]\nname = \"w\"\ncount = 2\n"
         "link = { rate = \"8Gbit/s\", latency = \"1us\" }\n"
         "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 1\nspines = 2\n"
         "uplink = { rate = \"8Gbit/s\", latency = \"1us\" }\n" +
         topology + more;
}

std::string frames(const std::string& more = "") {
  return "[queues]\n[flows]\npayload = \"1000B\"\noverhead = \"0B\"\ngap = \"0B\"\n" + more;
}

/// One flow of so many packets.
std::string flow(unsigned packets) {
  return "[[traffic]]\nname = \"far\"\npattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"" +
         std::to_string(packets) + "KB\"\n";
}

Result<RunReport> run(const std::string& text) {
  const ConfigResult config = load_config_text(text, "t.toml");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()));
  if (!config) return fail("no configuration");
  return compile_and_simulate(*config);
}

/// When the flow was at its receiver.
Duration received(const std::string& text) {
  const auto report = run(text);
  EXPECT_TRUE(report) << (report ? "" : report.error().text);
  if (!report) return {};
  return report->traffic->flows.at(0).received.value_or(Duration());
}

std::string spine(unsigned number) { return "spine" + std::to_string(number); }

std::string dead_from_the_start(unsigned number) {
  return "[[topology.override]]\nlink = \"" + spine(number) +
         " - *\"\ndown = [{ from = \"0s\" }]\n";
}

/// The spine that the flow's packets take.
unsigned taken() {
  const std::string slow = "[[topology.override]]\nlink = \"spine0 - *\"\nrate = \"4Gbit/s\"\n";
  return received(two_spines("", slow + frames() + flow(10))) > Duration::us(14) ? 0 : 1;
}

// Ten packets of 1 us over four links of 1 us, cut through.
TEST(Outages, ASpineThatIsDeadFromTheStartIsLeftOut) {
  const unsigned on_the_way = taken();
  for (const unsigned dead : {on_the_way, 1 - on_the_way}) {
    const std::string rest = dead_from_the_start(dead) + frames("timeout = \"100us\"\n") + flow(10);
    EXPECT_EQ(received(two_spines("reconverge = \"0s\"\n", rest)), Duration::us(10 + 4));
    EXPECT_EQ(received(two_spines("reconverge = \"0s\"\n", rest, "flow")), Duration::us(10 + 4));
    if (dead != on_the_way) {
      EXPECT_EQ(received(two_spines("", rest)), Duration::us(10 + 4));
      continue;
    }
    // What waited in front of it is lost at 50 us. The last packet left at 9 us.
    EXPECT_EQ(received(two_spines("reconverge = \"50us\"\n", rest)),
              Duration::us(9 + 100) + Duration::us(10 + 4));
    // The timeout comes first: packets that were sent again wait there too, until the next one.
    EXPECT_EQ(received(two_spines("reconverge = \"150us\"\n", rest)),
              Duration::us(2 * (9 + 100)) + Duration::us(10 + 4));
    EXPECT_EQ(received(two_spines("reconverge = \"50us\"\n", rest, "flow")),
              Duration::us(50 + 10 + 4));
  }
}

TEST(Outages, ARoutingThatDoesNotReactEndsTheRunWithFlowAndLinks) {
  const std::string on_the_way = spine(taken());
  const std::string rest =
      dead_from_the_start(taken()) + frames("timeout = \"100us\"\n") + flow(10);
  const auto packets = run(two_spines("reconverge = \"never\"\n", rest));
  ASSERT_FALSE(packets);
  EXPECT_EQ(packets.error().text.find("t.toml: 1 of 1 flows never end: nothing comes through "), 0u)
      << packets.error().text;
  for (const std::string& link : {"leaf0 -> " + on_the_way, on_the_way + " -> leaf1"}) {
    EXPECT_NE(packets.error().text.find(link), std::string::npos) << packets.error().text;
  }
  EXPECT_NE(packets.error().text.find(": \"far 0\" from w0 to w1 gave up after 7 retries; another "
                                      "way is open: set [topology] reconverge"),
            std::string::npos)
      << packets.error().text;
  const auto rates = run(two_spines("", rest, "flow"));
  ASSERT_FALSE(rates);
  EXPECT_NE(rates.error().text.find(": \"far 0\" from w0 to w1 waits; another way is open: set "
                                    "[topology] reconverge"),
            std::string::npos)
      << rates.error().text;
}

// The way goes by no spine any more.
TEST(Outages, NoWayAtAllIsSaidToo) {
  for (const char* fidelity : {"packet", "flow"}) {
    const auto report = run(two_spines("reconverge = \"50us\"\n",
                                       dead_from_the_start(0) + dead_from_the_start(1) +
                                           frames("timeout = \"100us\"\n") + flow(10),
                                       fidelity));
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().text.find("t.toml: 1 of 1 flows never end: nothing comes through "),
              0u)
        << report.error().text;
    EXPECT_NE(report.error().text.find("\"far 0\" from w0 to w1"), std::string::npos);
    EXPECT_EQ(report.error().text.find("another way"), std::string::npos) << report.error().text;
  }
}

// Packet k reaches leaf0 at k + 1 us. Packet 99 is cut off at 100.5 us.
TEST(Outages, AFlapOf200MicrosecondsWithAndWithoutReaction) {
  const std::string flap = "[[event]]\nat = \"100500ns\"\nlink = \"leaf0 -> " + spine(taken()) +
                           "\"\naction = \"down\"\nfor = \"200us\"\n";
  const std::string rest = frames() + flow(400) + flap;
  // Packets 100 to 308 stand in line when the NAK of 100 has come back, which is while 308 leaves.
  // They take until 300.5 + 209 us; then come 99 to 399, and three more links.
  const Duration all = Duration::ns(300'500) + Duration::us(209 + 301 + 3);
  EXPECT_EQ(received(two_spines("", rest)), all);
  // A flap that is over sooner is not noticed.
  EXPECT_EQ(received(two_spines("reconverge = \"201us\"\n", rest)), all);
  // Packets up to 149 are lost at 150.5 us. 150 comes to w1 by the other spine at 155 us; when its
  // NAK is back 159 leaves. Then come 99 to 399.
  EXPECT_EQ(received(two_spines("reconverge = \"50us\"\n", rest)), Duration::us(160 + 301 + 4));
  EXPECT_EQ(received(two_spines("", rest, "flow")), Duration::us(400 + 200 + 4));
  EXPECT_EQ(received(two_spines("reconverge = \"50us\"\n", rest, "flow")),
            Duration::us(400 + 50 + 4));
}

/// Of the only outage: streams, when routes changed, and how long it was until packets came.
void expect_outage(const std::string& text, std::optional<Time> rerouted, Duration longest) {
  const auto report = run(text);
  ASSERT_TRUE(report) << report.error().text;
  ASSERT_EQ(report->outages.size(), 1u);
  const OutageReport& outage = report->outages[0];
  EXPECT_EQ(outage.at, Time::zero() + Duration::ns(100'500));
  EXPECT_EQ(outage.rerouted, rerouted);
  EXPECT_EQ(outage.stopped, 1u);
  EXPECT_EQ(outage.again, 1u);
  EXPECT_EQ(outage.longest, longest);
}

// Packet 101 is the first one that left after it, and comes a microsecond behind packet 100.
TEST(Outages, TheReportSaysWhenTrafficFlowedAgain) {
  const std::string flap = "[[event]]\nat = \"100500ns\"\nlink = \"leaf0 -> " + spine(taken()) +
                           "\"\naction = \"down\"\nfor = \"200us\"\n";
  const std::string rest = frames() + flow(400) + flap;
  const Time found = Time::zero() + Duration::ns(150'500);
  const std::string reacts = "reconverge = \"50us\"\n";
  expect_outage(two_spines("", rest), std::nullopt, Duration::us(200 + 1 + 4));
  expect_outage(two_spines(reacts, rest), found, Duration::us(155) - Duration::ns(100'500));
  expect_outage(two_spines("", rest, "flow"), std::nullopt, Duration::us(200));
  expect_outage(two_spines(reacts, rest, "flow"), found, Duration::us(50));
}

// As above, but packet 98 is cut off behind the spine too.
TEST(Outages, ASpineThatIsBootedLosesWhatItHas) {
  const std::string reboot = "[[event]]\nat = \"100500ns\"\nswitch = \"" + spine(taken()) +
                             "\"\naction = \"down\"\nfor = \"200us\"\n";
  const std::string rest = frames() + flow(400) + reboot;
  EXPECT_EQ(received(two_spines("", rest)), Duration::ns(300'500) + Duration::us(209 + 302 + 3));
  EXPECT_EQ(received(two_spines("reconverge = \"50us\"\n", rest)), Duration::us(160 + 302 + 4));
  EXPECT_EQ(received(two_spines("", rest, "flow")), Duration::us(400 + 200 + 4));
  EXPECT_EQ(received(two_spines("reconverge = \"50us\"\n", rest, "flow")),
            Duration::us(400 + 50 + 4));
}

// Paths are counted anew: nothing goes to the dead spine. Until then every other packet is lost,
// the first one among them and the last one not, which has come then.
TEST(Outages, SprayedPacketsLeaveOutADeadSpine) {
  const std::string rest = dead_from_the_start(0) + frames("timeout = \"100us\"\n") + flow(10);
  EXPECT_EQ(received(two_spines("routing = \"spray\"\nreconverge = \"0s\"\n", rest)),
            Duration::us(10 + 4));
  EXPECT_EQ(received(two_spines("routing = \"spray\"\nreconverge = \"50us\"\n", rest)),
            Duration::us(9 + 100) + Duration::us(9 + 4));
}

TEST(Outages, ALimitOfRetriesThatIsGivenCountsAlways) {
  // Up again after 450 us, which is behind the third timeout and before the fifth.
  const std::string outage =
      "[[event]]\nat = \"0s\"\nlink = \"leaf0 - *\"\naction = \"down\"\n"
      "for = \"450us\"\n";
  const auto with = [&](const std::string& retries) {
    return run(two_spines("", frames("timeout = \"100us\"\n" + retries) + flow(1) + outage));
  };
  // Its NIC's link is down as well: the packet has not left yet.
  EXPECT_TRUE(with(""));
  EXPECT_TRUE(with("retries = 4\n"));
  const auto failed = with("retries = 3\n");
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().text.find("\"far 0\" from w0 to w1 gave up after 3 retries"),
            std::string::npos)
      << failed.error().text;
}

TEST(Outages, RoutesThatAreFixedDoNotReact) {
  const ConfigResult config = load_config_text(
      two_spines("routing = \"static\"\nreconverge = \"1ms\"\n", flow(1)), "t.toml");
  ASSERT_FALSE(config);
  EXPECT_NE(describe(config.error()).find("topology.reconverge"), std::string::npos);
  EXPECT_NE(describe(config.error()).find("routes that are fixed do not react"), std::string::npos);
}

}  // namespace
}  // namespace understudy
