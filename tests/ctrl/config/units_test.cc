// Rates, durations and sizes as text.
#include <gtest/gtest.h>

#include "ctrl/config/suggest.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

TEST(UnitsText, RatesAreExact) {
  EXPECT_EQ(parse_rate("1bit/s")->bps(), 1u);
  EXPECT_EQ(parse_rate("3kbit/s")->bps(), 3'000u);
  EXPECT_EQ(parse_rate("100Mbit/s")->bps(), 100'000'000u);
  EXPECT_EQ(parse_rate("400 Gbit/s")->bps(), 400'000'000'000u);
  EXPECT_EQ(parse_rate("1.6Tbit/s")->bps(), 1'600'000'000'000u);
  EXPECT_EQ(parse_rate("0.1Gbit/s")->bps(), 100'000'000u);
  EXPECT_EQ(parse_rate("1000Tbit/s")->bps(), 1'000'000'000'000'000u);
  EXPECT_TRUE(parse_rate("unlimited")->is_unlimited());
}

TEST(UnitsText, DurationsAreExact) {
  EXPECT_EQ(parse_duration("0us")->ps(), 0);
  EXPECT_EQ(parse_duration("7ps")->ps(), 7);
  EXPECT_EQ(parse_duration("1.68ns")->ps(), 1'680);
  EXPECT_EQ(parse_duration("0.5us")->ps(), 500'000);
  EXPECT_EQ(parse_duration("20ms")->ps(), 20'000'000'000);
  EXPECT_EQ(parse_duration("3s")->ps(), 3'000'000'000'000);
  EXPECT_EQ(parse_duration("0.000000000001s")->ps(), 1);
  EXPECT_EQ(parse_duration("0.1000000000000000000s")->ps(), 100'000'000'000);
}

TEST(UnitsText, SizesAreExact) {
  EXPECT_EQ(*parse_size("12B"), 12u);
  EXPECT_EQ(*parse_size("4KiB"), 4'096u);
  EXPECT_EQ(*parse_size("4KB"), 4'000u);
  EXPECT_EQ(*parse_size("16MiB"), 16'777'216u);
  EXPECT_EQ(*parse_size("1.5MB"), 1'500'000u);
  EXPECT_EQ(*parse_size("0.5GiB"), 536'870'912u);
  EXPECT_EQ(*parse_size("2GB"), 2'000'000'000u);
}

TEST(UnitsText, DurationsAreWrittenExactly) {
  for (const char* text : {"0s", "2s", "12s", "150ms", "1500us", "1001ns", "7ps", "86400s"}) {
    EXPECT_EQ(exact_text(*parse_duration(text)), text);
  }
}

TEST(UnitsText, NegativeOnesAreNamedAsSuch) {
  for (const char* text : {"-1ms", "-1 s", "-.5s"}) {
    EXPECT_NE(parse_duration(text).error().text.find("it must not be negative"), std::string::npos);
  }
  EXPECT_NE(parse_size("-1MiB").error().text.find("it must not be negative"), std::string::npos);
  EXPECT_NE(parse_size("-MiB").error().text.find("there is no number"), std::string::npos);
}

struct BadUnit {
  const char* text;
  const char* words;
};

template <typename T>
void expect_all_fail(Result<T> (*parse)(std::string_view), const std::vector<BadUnit>& cases) {
  for (const BadUnit& bad : cases) {
    const Result<T> parsed = parse(bad.text);
    ASSERT_FALSE(parsed) << bad.text;
    EXPECT_NE(parsed.error().text.find(bad.words), std::string::npos)
        << bad.text << " gave: " << parsed.error().text;
  }
}

TEST(UnitsText, WrongRates) {
  expect_all_fail<Rate>(parse_rate, {{"100", "the unit is missing"},
                                     {"100Gb/s", "did you mean \"Gbit/s\""},
                                     {"100gbit/s", "did you mean \"Gbit/s\""},
                                     {"100us", "unknown unit \"us\""},
                                     {"Gbit/s", "no number"},
                                     {"", "no number"},
                                     {"-1Gbit/s", "it must not be negative"},
                                     {".5Gbit/s", "no number"},
                                     {"5.Gbit/s", "no number"},
                                     {"1.2.3Gbit/s", "unknown unit \".3Gbit/s\""},
                                     {"1e3Gbit/s", "unknown unit \"e3Gbit/s\""},
                                     {"0.5bit/s", "finer than 1 bit/s"},
                                     {"0Gbit/s", "above zero"},
                                     {"1001Tbit/s", "the most is 1000Tbit/s"},
                                     {"Unlimited", "no number"},
                                     {"99999999999999999999999999bit/s", "too many digits"}});
}

TEST(UnitsText, WrongDurations) {
  expect_all_fail<Duration>(parse_duration,
                            {{"5", "expected a duration: a number and one of ps, ns, us, ms, s"},
                             {"5usec", "unknown unit \"usec\""},
                             {"5US", "did you mean \"us\""},
                             {"0.5ps", "finer than 1 ps"},
                             {"86401s", "the most is 86400s"},
                             {"9999999999999999999999999s", "the most is 86400s"}});
}

TEST(UnitsText, WrongSizes) {
  expect_all_fail<uint64_t>(parse_size, {{"4096", "the unit is missing"},
                                         {"4kib", "did you mean \"KiB\""},
                                         {"0.3B", "finer than 1 byte"},
                                         {"1025GiB", "the most is 1024GiB"}});
}

TEST(Suggest, NearestWordOrNone) {
  EXPECT_EQ(suggest("toleranse", {"idle", "tolerance"}), " (did you mean \"tolerance\"?)");
  EXPECT_EQ(suggest("nics ", {"gpus", "nics"}), " (did you mean \"nics\"?)");
  EXPECT_EQ(suggest("zzzz", {"idle", "tolerance"}), "");
  EXPECT_EQ(suggest("ab", {"xy"}), "");
  EXPECT_EQ(suggest("", {"xy"}), "");
  EXPECT_EQ(suggest(std::string(100'000, 'a'), {"aa"}), "");
}

}  // namespace
}  // namespace understudy
