// [[event]]: links, nodes and traffic; and what is said about wrong ones.
#include <gtest/gtest.h>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr const char* kHead =
    "format = 1\n"
    "[[node]]\nname = \"w\"\ncount = 4\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
    "[[traffic]]\nname = \"a\"\npattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"1MB\"\n"
    "start = \"command\"\n"
    "[[traffic]]\npattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"1MB\"\n";

ConfigResult load(const std::string& events) {
  return load_config_text(kHead + events, "events.toml");
}

TEST(Events, AreOfLinksNodesAndTraffic) {
  const auto config = load(
      "[[event]]\nat = \"4ms\"\ntraffic = \"a\"\naction = \"start\"\n"
      "[[event]]\nat = \"1ms\"\nlink = \"w1\"\nloss = 0.5\naction = \"up\"\n"
      "[[event]]\nat = \"2ms\"\nlink = \"w1 -> switch0\"\naction = \"down\"\nfor = \"5us\"\n"
      "[[event]]\nat = \"3ms\"\nnode = \"w2\"\naction = \"pause\"\n"
      "[[event]]\nat = \"5ms\"\ntraffic = \"2\"\naction = \"stop\"\n");
  ASSERT_TRUE(config) << describe(config.error());
  const std::vector<EventConfig>& events = config->events;
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].loss, 0.5);
  EXPECT_EQ(events[0].action, EventAction::kUp);
  EXPECT_EQ(events[0].node, 1u);
  ASSERT_TRUE(events[1].link);
  EXPECT_EQ(text_of(*events[1].link), "w1 -> switch0");
  EXPECT_EQ(events[1].lasts, Duration::us(5));
  EXPECT_EQ(events[2].node, 2u);
  EXPECT_TRUE(events[2].is_of_node());
  EXPECT_EQ(events[3].traffic, 0u);
  EXPECT_EQ(events[3].action, EventAction::kStart);
  EXPECT_EQ(events[4].traffic, 1u);
  EXPECT_TRUE(config->traffic[0].held);
  EXPECT_FALSE(config->traffic[1].held);
}

TEST(Events, AreOfSwitchesPortsAndStorms) {
  const auto config = load(
      "[[event]]\nat = \"1ms\"\nswitch = \"switch0\"\naction = \"down\"\nfor = \"2ms\"\n"
      "[[event]]\nat = \"2ms\"\nnode = \"w1\"\nnic = 0\naction = \"up\"\n"
      "[[event]]\nat = \"3ms\"\nnode = \"w2\"\naction = \"storm\"\nfor = \"1ms\"\n"
      "[[event]]\nat = \"4ms\"\nlink = \"switch0 -> w3\"\naction = \"storm\"\npriority = 3\n"
      "quanta = 100\n");
  ASSERT_TRUE(config) << describe(config.error());
  const std::vector<EventConfig>& events = config->events;
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].of_switch, "switch0");
  EXPECT_EQ(events[0].lasts, Duration::ms(2));
  EXPECT_EQ(events[1].node, 1u);
  EXPECT_EQ(events[1].nic, 0u);
  EXPECT_TRUE(events[2].is_storm());
  EXPECT_EQ(events[2].node, 2u);
  EXPECT_EQ(events[2].quanta, 65'535u);
  EXPECT_FALSE(events[2].priority);
  EXPECT_EQ(text_of(*events[3].link), "switch0 -> w3");
  EXPECT_EQ(events[3].priority, 3);
  EXPECT_EQ(events[3].quanta, 100u);
}

TEST(Events, WrongOnesAreNamed) {
  struct Case {
    const char* lines;
    const char* words;
  };
  for (const Case& c : {
           Case{"action = \"stop\"\nlink = \"w0\"\ntraffic = \"a\"",
                "this action is not one of links"},
           Case{"action = \"dwon\"\nlink = \"w0\"", "did you mean \"down\""},
           Case{"action = \"off\"\nnode = \"w0\"\nnic = 0\nfor = \"1ms\"\npriority = 3",
                "found \"off\": expected one of"},
           Case{"action = \"off\"\nswitch = \"switch0\"", "found \"off\""},
           Case{"action = \"off\"", "found \"off\""},
           Case{"action = 3\ntraffic = \"a\"\nrate = \"1Gbit/s\"", "found 3"},
           Case{"action = \"up\"\nlink = \"w0\"\nfor = \"1ms\"", "action = \"down\" and \"pause\""},
           Case{"action = \"down\"\nlink = \"w0\"\nfor = \"0ms\"", "expected some time"},
           Case{"action = \"pause\"\nnode = \"w0\"\nrate = \"1Gbit/s\"", "belongs to links"},
           Case{"action = \"start\"\ntraffic = \"b\"", "no [[traffic]] has this name"},
           Case{"action = \"start\"\ntraffic = \"3\"", "no [[traffic]] has this name"},
           Case{"link = \"w0\"\nloss = 2", "probability from 0 to 1"},
           Case{"node = \"w0\"\nlink = \"w0\"\nrate = \"1Gbit/s\"", "\"pause\" or \"resume\""},
           Case{"link = \"w0\"", "needs rate, latency, loss or an action"},
           Case{"switch = \"switch0\"\naction = \"pause\"\nnode = \"w0\"", "\"down\" or \"up\""},
           Case{"switch = \"switch0\"\naction = \"down\"\nloss = 0.5", "belongs to links"},
           Case{"node = \"w0\"\nnic = 1\naction = \"down\"", "event.nic"},
           Case{"node = \"w0\"\naction = \"storm\"\nquanta = 0", "event.quanta"},
           Case{"link = \"w0\"\naction = \"down\"\npriority = 3", "belongs to action = \"storm\""},
       }) {
    SCOPED_TRACE(c.lines);
    const auto config = load(std::string("[[event]]\nat = \"1ms\"\n") + c.lines + "\n");
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().size(), 1u) << describe(config.error());
    EXPECT_NE(describe(config.error()).find(c.words), std::string::npos)
        << describe(config.error());
    EXPECT_EQ(describe(config.error()).find("events.toml:"), 0u);
  }
}

TEST(Events, ANameThatSeveralHaveNeedsANumber) {
  const auto config = load(
      "[[traffic]]\nname = \"a\"\npattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"1MB\"\n"
      "[[event]]\nat = \"1ms\"\ntraffic = \"a\"\naction = \"start\"\n");
  ASSERT_FALSE(config);
  EXPECT_NE(describe(config.error()).find("the number of one"), std::string::npos);
}

}  // namespace
}  // namespace understudy
