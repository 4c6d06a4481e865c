// Live commands as text, to and fro, and what is said about those that make no sense.
#include "ctrl/run/commands_text.h"

#include <random>

#include "tests/ctrl/run/simulate_rig.h"
#include "tests/fuzz/commands_drive.h"

namespace understudy {
namespace {

Config config() {
  RingText ring;
  ring.more =
      "[[traffic]]\nname = \"incast\"\npattern = \"incast\"\nfrom = [\"w1\"]\nto = [\"w0\"]\n"
      "size = \"4MB\"\n"
      "[[traffic]]\npattern = \"flow\"\nfrom = [\"w1\"]\nto = [\"w0\"]\nsize = \"4MB\"\n";
  return config_of(ring.text());
}

TEST(Commands, WhatTheReportWritesReadsBack) {
  const Config c = config();
  for (const char* text : {"link gpu rate 50000000bit/s",
                           "link w0 latency 2us loss 0.001",
                           "link w1 down",
                           "link w1 down 3us",
                           "link w1 up",
                           "link w0 - switch0 down",
                           "link * -> switch0 rate unlimited",
                           "node w0 pause",
                           "node w0 pause 1us",
                           "node w0 resume",
                           "traffic incast stop",
                           "traffic traffic 2 start",
                           "switch switch0 down",
                           "switch switch0 down 50ms",
                           "switch switch0 up",
                           "node w1 nic 0 down 1us",
                           "node w1 nic 0 up",
                           "node w0 storm",
                           "node w0 nic 0 storm 1500ns priority 3 quanta 100",
                           "link switch0 -> w0 storm 2s"}) {
    const auto event = parse_command(c, text);
    ASSERT_TRUE(event) << event.error().text;
    EXPECT_EQ(event->at, Time::zero());
    EXPECT_EQ(command_text(c, *event), text);
  }
}

TEST(Commands, HaveTheirTimeInFront) {
  const auto event = parse_command(config(), "at 20ms node w1 pause 2ms");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->at, Time::zero() + Duration::ms(20));
  EXPECT_EQ(event->node, 2u);
  EXPECT_EQ(event->action, EventAction::kPause);
  EXPECT_EQ(event->lasts, Duration::ms(2));
}

TEST(Commands, ATrafficMayBeCalledByItsNumber) {
  const auto event = parse_command(config(), "traffic 2 stop");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->traffic, 1u);
}

TEST(Commands, WhatMakesNoSenseIsNamed) {
  const Config c = config();
  const auto why = [&](const char* text) {
    const auto event = parse_command(c, text);
    EXPECT_FALSE(event) << text;
    return event ? "" : event.error().text;
  };
  EXPECT_NE(why("").find("no \"link NODE\""), std::string::npos);
  EXPECT_NE(why("at soon link gpu up").find("soon"), std::string::npos);
  EXPECT_NE(why("link w9 up").find("no node \"w9\""), std::string::npos);
  EXPECT_NE(why("link gpu").find("nothing that changes"), std::string::npos);
  EXPECT_NE(why("link gpu rate").find("\"rate\" has no value"), std::string::npos);
  EXPECT_NE(why("link gpu loss 1.5").find("no probability"), std::string::npos);
  EXPECT_NE(why("link gpu pause").find("none of rate"), std::string::npos);
  EXPECT_NE(why("link gpu down 0us").find("takes some time"), std::string::npos);
  EXPECT_NE(why("link gpu up down").find("none of"), std::string::npos);
  EXPECT_NE(why("link gpu rate 1Gbit/s loss 0 rate 2Gbit/s").find("\"rate\" is said twice"),
            std::string::npos);
  EXPECT_NE(why("link gpu loss 0 loss 0").find("\"loss\" is said twice"), std::string::npos);
  EXPECT_NE(why("node w0 storm priority 1 priority 2").find("\"priority\" is said twice"),
            std::string::npos);
  EXPECT_NE(why("node w0 storm quanta 65535 quanta 1").find("\"quanta\" is said twice"),
            std::string::npos);
  EXPECT_NE(why("node w0 sleep").find("neither pause nor resume"), std::string::npos);
  EXPECT_NE(why("node w0 resume 2ms").find("too much"), std::string::npos);
  EXPECT_NE(why("switch switch0 pause").find("neither down nor up"), std::string::npos);
  EXPECT_NE(why("node w0 nic 1 down").find("no number from 0 to 0"), std::string::npos);
  EXPECT_NE(why("node w0 storm 1ms quanta 0").find("no number from 1 to 65535"), std::string::npos);
  EXPECT_NE(why("traffic incats stop").find("did you mean \"incast\""), std::string::npos);
  EXPECT_NE(why("traffic incast").find("neither start nor stop"), std::string::npos);
}

/// Commands of which some words are others'; tests/fuzz/commands_drive.h says what must hold.
TEST(Commands, OtherWordsAreRefusedOrReadBack) {
  const std::vector<std::vector<std::string>> whole = {
      {"at", "20ms", "link", "gpu", "rate", "50Mbit/s", "latency", "2us", "loss", "0.001"},
      {"link", "w0", "-", "switch0", "down", "3us"},
      {"link", "*", "->", "switch0", "rate", "unlimited"},
      {"node", "w0", "pause", "1us"},
      {"node", "w1", "nic", "0", "down", "1us"},
      {"node", "w0", "nic", "0", "storm", "1500ns", "priority", "3", "quanta", "100"},
      {"traffic", "an", "incast", "stop"},
      {"traffic", "2", "start"},
      {"switch", "switch0", "up"}};
  std::mt19937_64 random(28);
  const auto any = [&](const auto& all) { return all[random() % all.size()]; };
  size_t commands = 0;
  for (int round = 0; round < 30000; ++round) {
    std::vector<std::string> words = any(whole);
    for (uint64_t changes = random() % 3; changes > 0 && !words.empty(); --changes) {
      const auto at = words.begin() + static_cast<ptrdiff_t>(random() % words.size());
      const std::string other = any(any(whole));
      switch (random() % 3) {
        case 0:
          *at = other;
          break;
        case 1:
          words.insert(at, other);
          break;
        default:
          words.erase(at);
      }
    }
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    commands += drive_command(text) ? 1 : 0;
  }
  EXPECT_GT(commands, 10000U);
  EXPECT_LT(commands, 25000U);
}

}  // namespace
}  // namespace understudy
