// Keys start and after of [[job]]: what they hold, and what is wrong with them, with file and line.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr char kNodes[] =
    "format = 1\n[[node]]\nname = \"w\"\ncount = 3\n"
    "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n";

/// Of six lines and the keys' own.
std::string job(const std::string& name, const std::string& keys) {
  return "[[job]]\nname = \"" + name +
         "\"\ncollective = \"all_reduce\"\nranks = [\"w*\"]\nsizes = [\"4KiB\"]\n" + keys;
}

std::string errors(const std::string& jobs) {
  const ConfigResult config = load_config_text(kNodes + jobs, "f.toml");
  return config ? "" : describe(config.error());
}

TEST(JobOrder, AJobMayComeAfterOthersAnywhereInTheFile) {
  const ConfigResult config =
      load_config_text(kNodes + job("last", "after = [\"a\", \"b\"]\n") +
                           job("a", "start = \"5ms\"\n") + job("b", "after = \"a\"\n"),
                       "f.toml");
  ASSERT_TRUE(config) << describe(config.error());
  EXPECT_EQ(config->jobs[0].after, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(config->jobs[1].start, Time::zero() + Duration::ms(5));
  EXPECT_TRUE(config->jobs[1].after.empty());
  EXPECT_EQ(config->jobs[2].after, (std::vector<uint32_t>{1}));
  EXPECT_EQ(config->jobs[2].start, Time::zero());
}

TEST(JobOrder, AnUnknownNameIsNamedWithTheNearestOne) {
  EXPECT_EQ(errors(job("first", "") + job("b", "after = \"frist\"\n")),
            "f.toml:16: job.after: found \"frist\" (did you mean \"first\"?): expected one of "
            "first, b\n");
}

TEST(JobOrder, JobsThatWaitForEachOtherAreNamed) {
  EXPECT_EQ(errors(job("a", "after = \"c\"\n") + job("b", "after = \"a\"\n") +
                   job("c", "after = \"b\"\n") + job("d", "after = \"c\"\n")),
            "f.toml:11: job.after: found a cycle: jobs wait for each other: \"a\" (line 6) after "
            "\"c\" (line 18) after \"b\" (line 12) after \"a\"\n");
  EXPECT_EQ(errors(job("a", "after = \"a\"\n")),
            "f.toml:11: job.after: found a cycle: jobs wait for each other: \"a\" (line 6) after "
            "\"a\"\n");
}

TEST(JobOrder, WhatCannotWaitIsRefused) {
  const std::string why = "goes with entry = \"scheduled\" and operations = \"told\" only";
  EXPECT_EQ(errors(job("a", "entry = \"first_credit\"\nstart = \"5ms\"\n")),
            "f.toml:12: job.start: found \"5ms\": " + why + "\n");
  EXPECT_EQ(errors(job("a", "") + job("b", "entry = \"first_credit\"\nafter = \"a\"\n")),
            "f.toml:17: job.after: found \"a\": " + why + "\n");
  EXPECT_EQ(errors(job("a", "entry = \"first_credit\"\n") + job("b", "after = \"a\"\n")),
            "f.toml:17: job.after: found \"a\": " + why + ", of the job in line 6 too\n");
  EXPECT_EQ(errors(job("a", "") + job("b", "after = [\"a\", \"a\"]\n")),
            "f.toml:16: job.after: found \"a\": this job is named twice\n");
}

}  // namespace
}  // namespace understudy
