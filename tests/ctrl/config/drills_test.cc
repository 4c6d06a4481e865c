// [[drill]]: events with an outcome that is expected; and what is said about wrong ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr const char* kHead =
    "format = 1\n"
    "[[node]]\nname = \"w\"\ncount = 4\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
    "[[traffic]]\nname = \"a\"\npattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"1MB\"\n";

ConfigResult load(const std::string& text) { return load_config_text(kHead + text, "drills.toml"); }

std::string errors_of(const std::string& text) {
  const auto config = load(text);
  return config ? "" : describe(config.error());
}

std::string drill(const std::string& outcome) {
  return "[[drill]]\nname = \"d\"\n" + outcome + "\n";
}
std::string event(const std::string& at, const std::string& what) {
  return "[[drill.event]]\nat = \"" + at + "\"\n" + what + "\n";
}

constexpr const char* kFlap = "link = \"w1\"\naction = \"down\"\nfor = \"5us\"";

TEST(DrillTables, JoinTheEventsInOrderOfTime) {
  const auto config =
      load("[[event]]\nat = \"2ms\"\nlink = \"w2\"\nloss = 0.5\n" +
           drill("recovers_within = \"200ms\"") + event("3ms", kFlap) + event("1ms", kFlap));
  ASSERT_TRUE(config) << describe(config.error());
  ASSERT_EQ(config->drills.size(), 1u);
  const DrillConfig& d = config->drills[0];
  EXPECT_EQ(d.name, "d");
  EXPECT_EQ(d.outcome, DrillOutcome::kRecovers);
  EXPECT_EQ(d.within, Duration::ms(200));
  EXPECT_EQ(d.from, Time::zero() + Duration::ms(1));
  EXPECT_EQ(d.until, Time::zero() + Duration::ms(3) + Duration::us(5));
  ASSERT_EQ(config->events.size(), 3u);
  EXPECT_EQ(config->events[0].drill, 0u);
  EXPECT_FALSE(config->events[1].drill);
  EXPECT_EQ(config->events[2].drill, 0u);
}

TEST(DrillTables, KnowWhetherTheirEventsUndoEachOther) {
  const auto until = [](const std::string& events) {
    const auto config = load(drill("reports_within = \"1s\"") + events);
    EXPECT_TRUE(config) << describe(config.error());
    return config ? config->drills[0].until : std::nullopt;
  };
  EXPECT_EQ(until(event("1ms", "link = \"w1\"\naction = \"down\"")), std::nullopt);
  EXPECT_EQ(until(event("1ms", "link = \"w1\"\nloss = 0.01")), std::nullopt);
  EXPECT_EQ(until(event("1ms", "link = \"w1\"\nrate = \"50Gbit/s\"")), std::nullopt);
  EXPECT_EQ(
      until(event("1ms", "link = \"w1\"\nloss = 0.01") + event("2ms", "link = \"w1\"\nloss = 0.0")),
      Time::zero() + Duration::ms(2));
  EXPECT_EQ(until(event("1ms", "link = \"w1\"\nrate = \"50Gbit/s\"") +
                  event("2ms", "link = \"w1\"\nrate = \"100Gbit/s\"")),
            Time::zero() + Duration::ms(2));
  EXPECT_EQ(until(event("1ms", "link = \"w1\"\naction = \"down\"") +
                  event("2ms", "link = \"w2\"\naction = \"up\"")),
            std::nullopt);
}

TEST(DrillTables, MayWaitForOperations) {
  const std::string job =
      "[[job]]\nname = \"j\"\ncollective = \"all_reduce\"\nranks = [\"w*\"]\nsizes = [\"1MiB\"]\n";
  const auto after = [&](const std::string& keys) {
    return job + drill("recovers_within = \"1s\"\nafter = { " + keys + " }") + event("1ms", kFlap);
  };
  const auto config = load(after("job = \"j\", operations = 20"));
  ASSERT_TRUE(config) << describe(config.error());
  ASSERT_TRUE(config->drills[0].after);
  EXPECT_EQ(config->drills[0].after->job, 0u);
  EXPECT_EQ(config->drills[0].after->operations, 20u);
  EXPECT_THAT(errors_of(after("job = \"k\", operations = 20")),
              ::testing::HasSubstr("drill.after.job"));
  EXPECT_THAT(errors_of(after("job = \"j\"")), ::testing::HasSubstr("drill.after.operations"));
  EXPECT_THAT(errors_of(after("job = \"j\", operations = -1")),
              ::testing::HasSubstr("drill.after.operations"));
}

TEST(DrillTables, AllowAShare) {
  const auto config = load(drill("slower_by_at_most = \"12.5%\"") + event("1ms", kFlap));
  ASSERT_TRUE(config) << describe(config.error());
  EXPECT_EQ(config->drills[0].outcome, DrillOutcome::kSlower);
  EXPECT_EQ(config->drills[0].slower, 0.125);
}

TEST(DrillTables, WrongOnesAreNamed) {
  const std::vector<std::pair<std::string, const char*>> cases = {
      {drill("") + event("1ms", kFlap),
       "drills.toml:12: drill.recovers_within: found nothing: a drill needs one of"},
      {drill("recovers_within = \"1s\"\nreports_within = \"1s\"") + event("1ms", kFlap),
       "found several outcomes"},
      {drill("recovers_within = \"0s\"") + event("1ms", kFlap), "expected some time"},
      {drill("slower_by_at_most = \"10\"") + event("1ms", kFlap), "expected a share as in \"10%\""},
      {drill("slower_by_at_most = \"-1%\"") + event("1ms", kFlap), "expected a share"},
      {drill("slower_by_at_most = \"nan%\"") + event("1ms", kFlap), "expected a share"},
      {drill("recovers_within = \"1s\""), "drill.event: found nothing: a drill needs"},
      {drill("recovers_within = \"1s\"\nspeed = 1") + event("1ms", kFlap), "drill.speed"},
      {drill("recovers_within = \"1s\"") + event("1ms", "link = \"w9\"\naction = \"down\""),
       "drill.event.link: found \"w9\""},
      {drill("recovers_within = \"1s\"") + event("1ms", kFlap) + drill("recovers_within = \"1s\"") +
           event("2ms", kFlap),
       "another [[drill]] has this name"},
      {"[[drill]]\nrecovers_within = \"1s\"\n" + event("1ms", kFlap), "drill.name"},
      {drill("recovers_within = \"4us\"") + event("1ms", kFlap),
       "\"w1\" cannot do anything before that"},
      {drill("recovers_within = \"1s\"") + event("1ms", "node = \"w1\"\naction = \"pause\""),
       "an event without end"},
  };
  for (const auto& [text, said] : cases) {
    EXPECT_THAT(errors_of(text), ::testing::HasSubstr(said)) << text;
  }
}

}  // namespace
}  // namespace understudy
