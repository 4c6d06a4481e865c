// How messages between emulated ranks get their times where the configuration leaves it open.
#include "ctrl/compile/ways/inner_way.h"

#include <gtest/gtest.h>

#include "ctrl/compile/scenario.h"
#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

struct Cluster {
  unsigned nodes = 4, gpus = 1, nics = 1;
  std::string rate = "10Mbit/s";  // every machine carries it
};

std::string text_of(const Cluster& c, const std::string& job, const std::string& more = "") {
  std::string text = "format = 1\n";
  const std::string parts = "gpus = " + std::to_string(c.gpus) +
                            "\nnics = " + std::to_string(c.nics) + "\nlink = { rate = \"" + c.rate +
                            "\", latency = \"1us\" }\n";
  text += more;
  for (unsigned nic = 0; nic < c.nics; ++nic) {
    const std::string number = std::to_string(nic);
    text += "[[prefix]]\nnic = " + number + "\nv4 = \"10." + number + ".0.0/24\"\n";
    text += "[[port]]\nreal = \"gpu\"\nnic = " + number + "\ndevice = \"net" + number + "\"\n";
  }
  text += "[[node]]\nname = \"gpu\"\nreal = true\n" + parts;
  text += "[[node]]\nname = \"w\"\ncount = " + std::to_string(c.nodes - 1) + "\n" + parts;
  return text +
         "[[job]]\nname = \"j\"\nranks = [\"gpu\", \"w*\"]\ngpus = " + std::to_string(c.gpus) +
         "\n" + (job.find("sizes") == std::string::npos ? "sizes = [\"96KiB\"]\n" : "") + job;
}

Config config_of(const std::string& text) {
  ConfigResult config = load_config_text(text, "test");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error())) << text;
  return std::move(*config);
}

bool holds(const Cluster& c, const std::string& job) {
  const Config config = config_of(text_of(c, job));
  return inner_need(config, config.jobs[0]).plan_holds;
}

std::string all_reduce(const char* algorithm, unsigned channels) {
  return std::string("collective = \"all_reduce\"\nalgorithm = \"") + algorithm +
         "\"\nchannels = " + std::to_string(channels) + "\n";
}

TEST(InnerWay, ThePlanHoldsWhereANicHasOneConnectionADirection) {
  EXPECT_TRUE(holds({}, all_reduce("ring", 1)));
  EXPECT_FALSE(holds({}, all_reduce("ring", 2)));
  EXPECT_TRUE(holds({.gpus = 2}, all_reduce("ring", 1)));
  EXPECT_FALSE(holds({.gpus = 2}, all_reduce("ring", 2)));
  // One channel leaves by the one NIC and comes in by the other, the second channel likewise.
  EXPECT_TRUE(holds({.gpus = 2, .nics = 2}, all_reduce("ring", 2)));
  EXPECT_FALSE(holds({.gpus = 2, .nics = 2}, all_reduce("ring", 4)));
  EXPECT_FALSE(holds({}, all_reduce("tree", 1)));
  EXPECT_FALSE(holds({.nodes = 3}, all_reduce("tree", 2)));
  // The next operation's credits meet this one's data.
  EXPECT_FALSE(holds({}, "collective = \"broadcast\"\n"));
  EXPECT_FALSE(holds({}, "collective = \"reduce\"\n"));
  EXPECT_TRUE(holds({.nodes = 2}, "collective = \"broadcast\"\n"));
  EXPECT_TRUE(holds({}, "collective = \"send_recv\"\n"));
  EXPECT_FALSE(holds({}, "collective = \"send_recv\"\nchannels = 2\nsizes = [\"1MiB\"]\n"));
  EXPECT_FALSE(holds({}, "collective = \"all_gather\"\nalgorithm = \"pat\"\n"));
  EXPECT_FALSE(holds({}, "collective = \"all_to_all\"\n"));
  EXPECT_TRUE(holds({}, all_reduce("ring", 1) + "group = true\n"));
  EXPECT_FALSE(holds({}, all_reduce("ring", 2) + "group = true\n"));
}

TEST(InnerWay, ThePlanHoldsWhereEmulatedRanksDoNotSpeakWithEachOther) {
  EXPECT_TRUE(holds({.nodes = 2}, all_reduce("tree", 4)));
  EXPECT_TRUE(holds({.nodes = 2}, "collective = \"all_to_all\"\nchannels = 4\n"));
}

TEST(InnerWay, ThePlanHoldsWherePacketsTakeNoTime) {
  EXPECT_TRUE(holds({.rate = "unlimited"}, all_reduce("tree", 4)));
}

// Between leaves, and beside traffic, messages may meet others that the plan does not know.
TEST(InnerWay, ThePlanHoldsBehindOneSwitchOnly) {
  const auto holds_in = [](const std::string& more) {
    const Config config = config_of(text_of({}, all_reduce("ring", 1), more));
    return inner_need(config, config.jobs[0]).plan_holds;
  };
  EXPECT_TRUE(holds_in("[topology]\nkind = \"single_switch\"\n"));
  EXPECT_TRUE(holds_in("[queues]\n"));
  const std::string leaves =
      "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 2\nspines = 1\n"
      "uplink = { rate = \"1Gbit/s\", latency = \"1us\" }\n";
  EXPECT_FALSE(holds_in(leaves));
  EXPECT_FALSE(
      holds_in("[[traffic]]\npattern = \"incast\"\nto = \"w0\"\nfrom = \"w1\"\n"
               "size = \"1MiB\"\n"));
  const Config config = config_of(text_of({}, all_reduce("ring", 1), leaves));
  const auto scenario = compile_scenario({config}, RunClock::kReal);
  ASSERT_TRUE(scenario) << scenario.error().text;
  EXPECT_TRUE(scenario->jobs[0].by_packets);
}

struct Way {
  bool by_packets = false, plan_holds = true;
  bool operator==(const Way&) const = default;
};

Way way_of(const std::string& text, RunClock clock = RunClock::kReal) {
  const Config config = config_of(text);
  const auto scenario = compile_scenario({config}, clock);
  EXPECT_TRUE(scenario) << (scenario ? "" : scenario.error().text);
  if (!scenario) return {};
  const ScenarioJob& job = scenario->jobs.at(0);
  EXPECT_EQ(job.setup->carried, job.by_packets);
  EXPECT_EQ(job.setup->is_doubtful(), !job.by_packets && !job.plan_holds);
  EXPECT_EQ(scenario->topology != nullptr, job.by_packets);
  return {job.by_packets, job.plan_holds};
}

constexpr Way kExact{false, true}, kByPackets{true, false}, kDoubtful{false, false};

TEST(InnerWay, RunTakesPacketsWhereThePlanDoesNotHold) {
  const std::string join = "join = { file = \"id\" }\n";
  EXPECT_EQ(way_of(text_of({}, all_reduce("ring", 1))), kExact);
  EXPECT_EQ(way_of(text_of({}, all_reduce("tree", 2))), kByPackets);
  EXPECT_EQ(way_of(text_of({}, all_reduce("tree", 2) + join)), kByPackets);
  EXPECT_EQ(way_of(text_of({}, all_reduce("ring", 2) + join)), kByPackets);
  EXPECT_EQ(way_of(text_of({}, all_reduce("ring", 2) + join + "operations = \"fed\"\n")),
            kByPackets);
  EXPECT_EQ(way_of(text_of({}, all_reduce("ring", 2)), RunClock::kVirtual), kByPackets);
  const std::string broadcast = "collective = \"broadcast\"\n";
  EXPECT_EQ(way_of(text_of({}, broadcast)), kByPackets);
  EXPECT_EQ(way_of(text_of({}, broadcast + join + "operations = \"fed\"\n")), kDoubtful);
}

TEST(InnerWay, TimesAreDoubtfulWherePacketsCannotBe) {
  EXPECT_EQ(way_of(text_of({}, all_reduce("ring", 2) + "operations = \"inferred\"\n")), kDoubtful);
  EXPECT_EQ(way_of(text_of({}, all_reduce("tree", 2) + "inner = \"times\"\n")), kDoubtful);
  EXPECT_EQ(way_of(text_of({}, all_reduce("tree", 2), "[fabric]\ncontrol_class = \"separate\"\n")),
            kDoubtful);
  EXPECT_EQ(way_of(text_of({}, all_reduce("tree", 2), "[fabric]\nfidelity = \"flow\"\n")),
            kDoubtful);
}

// No machine carries the packets of sixty NICs of 400 Gbit/s; in virtual time there is time.
TEST(InnerWay, RunTakesTimesBeyondWhatTheMachineCarries) {
  const std::string text =
      text_of({.nodes = 60, .rate = "400Gbit/s"}, all_reduce("tree", 2) + "sizes = [\"4MiB\"]\n");
  EXPECT_EQ(way_of(text), kDoubtful);
  EXPECT_EQ(way_of(text, RunClock::kVirtual), kByPackets);
  const Config config = config_of(
      text_of({.nodes = 60, .rate = "400Gbit/s"}, all_reduce("tree", 2) + "inner = \"packets\"\n"));
  const auto refused = compile_scenario({config}, RunClock::kReal);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("job.inner = \"packets\""), std::string::npos);
}

}  // namespace
}  // namespace understudy
