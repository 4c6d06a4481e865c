// Time series as files and as plots. gnuplot itself: the test of the command line.
#include <gtest/gtest.h>

#include "ctrl/report/series/series_plot.h"

namespace understudy {
namespace {

SeriesRow row(int64_t us, bool link, std::string_view name) {
  SeriesRow r;
  r.at = Time::zero() + Duration::us(us);
  r.kind = link ? SeriesKind::kLink : SeriesKind::kFlow;
  r.name = name;
  return r;
}

TEST(SeriesFile, NamesOfAllKindsCanBeReadBack) {
  auto file = SeriesFile::create("");
  ASSERT_TRUE(file);
  const std::string names[] = {"a -> b", "a,b", "\"", "\"\"x", "say \"it\"", "two\nlines", ""};
  for (const std::string& name : names) {
    SeriesRow r = row(1, name.size() % 2 == 0, name);
    r.at = Time::from_ps(123'456'789'000'001);
    r.rate = UINT64_MAX;
    if (!name.empty()) r.queue = 0;
    file->add(r);
  }
  ASSERT_TRUE(file->finish());
  size_t i = 0;
  const auto read = file->read([&](const SeriesRow& r) {
    const std::string& name = names[i++];
    EXPECT_EQ(r.name, name);
    EXPECT_EQ(r.kind == SeriesKind::kLink, name.size() % 2 == 0);
    EXPECT_EQ(r.at, Time::from_ps(123'456'789'000'001));
    EXPECT_EQ(r.rate, UINT64_MAX);
    EXPECT_EQ(r.queue.has_value(), !name.empty());
    EXPECT_FALSE(r.window);
  });
  EXPECT_TRUE(read);
  EXPECT_EQ(i, std::size(names));
}

TEST(SeriesFile, CannotBeWritten) {
  const auto none = SeriesFile::create("/nonexistent/series.csv");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().text, "/nonexistent/series.csv: No such file or directory");
  auto full = SeriesFile::create("/dev/full");
  ASSERT_TRUE(full);
  full->add(row(1, true, "a"));
  EXPECT_FALSE(full->finish());
}

// Points of the block that stands for this curve.
std::vector<std::string> block(const std::string& script, size_t plot, size_t curve) {
  size_t at = 0;
  for (size_t i = 0; i <= plot; ++i) at = script.find("set title", at) + 1;
  at = script.find("$d" + std::to_string(curve) + " << EOD\n", at);
  at = script.find('\n', at) + 1;
  std::vector<std::string> lines;
  for (size_t end; (end = script.find('\n', at)) != std::string::npos; at = end + 1) {
    lines.push_back(script.substr(at, end - at));
    if (lines.back() == "EOD") break;
  }
  lines.pop_back();
  return lines;
}

TEST(SeriesPlot, TimesWithoutARowAreZero) {
  auto file = SeriesFile::create("");
  ASSERT_TRUE(file);
  SeriesRow link = row(10, true, "l"), flow = row(20, false, "f");
  link.queue = 3000;
  link.throughput = 2'000'000'000;
  flow.rate = 500'000'000;
  file->add(link);
  file->add(flow);
  file->add(row(30, true, "another"));
  ASSERT_TRUE(file->finish());
  const auto script =
      series_script(*file, {"it's.png", "heading", Duration::us(10), {"nothing", "l"}, {"f"}});
  ASSERT_TRUE(script);
  EXPECT_TRUE(script->starts_with("set terminal pngcairo size 1200,1000 ")) << *script;
  EXPECT_NE(script->find("set output 'it''s.png'\n"), std::string::npos);
  EXPECT_NE(script->find("set xlabel 'us'\n"), std::string::npos);
  using Lines = std::vector<std::string>;
  EXPECT_EQ(block(*script, 0, 0), (Lines{"0 0", "10 0", "20 0", "30 0"}));
  EXPECT_EQ(block(*script, 0, 1), (Lines{"0 0", "10 3", "20 0", "30 0"}));
  EXPECT_EQ(block(*script, 1, 1), (Lines{"0 0", "10 2", "20 0", "30 0"}));
  EXPECT_EQ(block(*script, 2, 0), (Lines{"0 0", "10 0", "20 0.5", "30 0"}));
}

// Many samples are drawn as some points: of queues the largest, of rates the mean.
TEST(SeriesPlot, ManySamplesAreThinned) {
  auto file = SeriesFile::create("");
  ASSERT_TRUE(file);
  constexpr int64_t kSamples = 5000;  // three to a point
  for (int64_t i = 1; i <= kSamples; ++i) {
    SeriesRow link = row(i, true, "l");
    link.queue = i == 2 ? 7000u : 1000u;
    link.throughput = i == 2 ? 6'000'000'000u : 0u;
    file->add(link);
  }
  ASSERT_TRUE(file->finish());
  const auto script = series_script(*file, {"a.svg", "", Duration::us(1), {"l"}, {}});
  ASSERT_TRUE(script);
  const auto queue = block(*script, 0, 0);
  ASSERT_EQ(queue.size(), 1u + 1667u);
  EXPECT_EQ(queue[1], "3 7");
  EXPECT_EQ(queue[2], "6 1");
  EXPECT_EQ(block(*script, 1, 0)[1], "3 2");
}

// Links 1 to 5 carry as many Gbit/s in the first sample, of the second only the first has a row.
TEST(SeriesPlot, OthersAreABand) {
  auto file = SeriesFile::create("");
  ASSERT_TRUE(file);
  for (int64_t i = 1; i <= 5; ++i) {
    const std::string name = "l" + std::to_string(i);
    SeriesRow link = row(10, true, name);
    link.queue = i == 5 ? 8000u : 0u;
    link.throughput = static_cast<uint64_t>(i) * 1'000'000'000;
    file->add(link);
  }
  SeriesRow link = row(20, true, "l1"), flow = row(30, false, "f1");
  link.throughput = 2'000'000'000;
  flow.rate = 500'000'000;
  file->add(link);
  file->add(flow);
  ASSERT_TRUE(file->finish());
  SeriesPlot plot{"a.svg", "", Duration::us(10), {"l4"}, {"f1"}};
  plot.other_links = 4;
  const auto script = series_script(*file, plot);
  ASSERT_TRUE(script);
  using Lines = std::vector<std::string>;
  EXPECT_EQ(block(*script, 0, 0), (Lines{"10 8 8", "20 0 0", "30 0 0"}));   // least, most
  EXPECT_EQ(block(*script, 0, 1), (Lines{"0 0", "10 8", "20 0", "30 0"}));  // median
  EXPECT_EQ(block(*script, 1, 0), (Lines{"10 1 5", "20 2 2", "30 0 0"}));
  EXPECT_EQ(block(*script, 1, 1), (Lines{"0 0", "10 2.5", "20 2", "30 0"}));
  EXPECT_EQ(block(*script, 1, 2), (Lines{"0 0", "10 4", "20 0", "30 0"}));
  EXPECT_EQ(block(*script, 2, 0), (Lines{"0 0", "10 0", "20 0", "30 0.5"}));  // no other senders
  EXPECT_NE(script->find("$d0 using 1:2:3 with filledcurves"), std::string::npos);
  EXPECT_NE(script->find("'4 others, least to most above 0'"), std::string::npos);
}

// Thinned: of each other link the mean of a point's samples, rows of neighbouring samples mixed.
TEST(SeriesPlot, OthersAreThinnedToo) {
  auto file = SeriesFile::create("");
  ASSERT_TRUE(file);
  constexpr int64_t kSamples = 4000;  // two to a point
  for (int64_t i = 1; i <= kSamples; ++i) {
    const int64_t at = i % 4 == 2 ? i + 1 : i % 4 == 3 ? i - 1 : i;
    SeriesRow a = row(at, true, "a"), b = row(at, true, "b");
    a.throughput = at % 2 == 0 ? 4'000'000'000u : 0u;
    b.throughput = 6'000'000'000;
    a.queue = b.queue = at % 2 == 0 ? 9000 : 5000;
    file->add(a);
    file->add(b);
  }
  ASSERT_TRUE(file->finish());
  SeriesPlot plot{"a.svg", "", Duration::us(1), {}, {}};
  plot.other_links = 2;
  const auto script = series_script(*file, plot);
  ASSERT_TRUE(script);
  const auto carried = block(*script, 1, 0), queues = block(*script, 0, 0);
  ASSERT_EQ(carried.size(), 2000u);
  for (size_t i = 0; i < carried.size(); ++i) {
    const std::string end = std::to_string(2 * (i + 1));
    ASSERT_EQ(carried[i], end + " 2 6");
    ASSERT_EQ(queues[i], end + " 9 9");
  }
}

}  // namespace
}  // namespace understudy
