// Sweeps over seeds and controls: what they run, their intervals, and what they write.
#include "ctrl/sweep/flow_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "ctrl/config/read/load.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

constexpr char kText[] =
    "format = 1\nseed = 5\n[[control]]\nname = \"roce, slow\"\nlaw = \"dcqcn\"\n"
    "[[node]]\nname = \"w\"\ncount = 6\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
    "[[queues.class]]\necn = [ { kmin = \"10KB\", kmax = \"20KB\", pmax = 1.0 } ]\n"
    "[[traffic]]\npattern = \"poisson\"\nfrom = \"w*\"\nload = 0.6\nsizes = \"fb-hadoop\"\n"
    "until = \"1ms\"\n";

Config config_of(const std::string& text = kText) {
  ConfigResult config = load_config_text(text, "s.toml");
  if (!config) {
    ADD_FAILURE() << describe(config.error());
    return {};
  }
  return std::move(*config);
}

TEST(FlowSweep, IntervalsAreStudents) {
  EXPECT_EQ(estimate({}).seeds, 0u);
  EXPECT_EQ(estimate({3}).mean, 3);
  EXPECT_EQ(estimate({3}).half_width, 0);
  // t(0.975, 1) = 12.7062, standard error 1.
  EXPECT_NEAR(estimate({1, 3}).half_width, 12.7062, 1e-4);
  // t(0.975, 2) = 4.3027, standard deviation 1.
  EXPECT_NEAR(estimate({1, 2, 3}).half_width, 4.3027 / std::sqrt(3), 1e-4);
  EXPECT_DOUBLE_EQ(estimate({1, 2, 3}).mean, 2);
  // t(0.975, 40) = 2.0211, t(0.975, 120) = 1.9799.
  for (const auto& [n, t] : {std::pair{41, 2.0211}, std::pair{121, 1.9799}}) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(i);
    const double deviation = std::sqrt(n * (n + 1) / 12.0);
    EXPECT_NEAR(estimate(values).half_width, t * deviation / std::sqrt(n), 2e-3);
  }
}

TEST(FlowSweep, EachRunIsThatOfSimulate) {
  const Config config = config_of();
  std::vector<std::pair<uint64_t, std::vector<FlowSlowdown>>> runs;
  SweepOptions options;
  options.seeds = 2;
  options.done = [&](const SweepCase&, uint64_t seed, const RunReport& report) -> Result<void> {
    runs.emplace_back(seed, *report.traffic->groups[0].slowdowns);
    return {};
  };
  SweepCase under{"slow", &config, 0, false};
  const auto sweep = sweep_flows({{"plain", &config}, under}, options);
  ASSERT_TRUE(sweep) << sweep.error().text;
  ASSERT_EQ(runs.size(), 4u);
  for (size_t i = 0; i < runs.size(); ++i) {
    Config same = config;
    same.seed = 5 + i % 2;
    EXPECT_EQ(runs[i].first, same.seed);
    if (i >= 2) same.traffic[0].control = 0;
    const auto report = compile_and_simulate(same);
    ASSERT_TRUE(report);
    EXPECT_TRUE(std::ranges::equal(*report->traffic->groups[0].slowdowns, runs[i].second, {},
                                   &FlowSlowdown::slowdown, &FlowSlowdown::slowdown));
  }
  ASSERT_EQ(sweep->curves.size(), 2u);
  const SweepCurve& plain = sweep->curves[0];
  EXPECT_EQ(plain.slowdowns.size(), runs[0].second.size() + runs[1].second.size());
  EXPECT_TRUE(std::ranges::is_sorted(plain.slowdowns));
  const double p50 =
      (slowdown_of_all(runs[0].second).at[0] + slowdown_of_all(runs[1].second).at[0]) / 2;
  EXPECT_DOUBLE_EQ(plain.all.at[0].mean, p50);
  EXPECT_EQ(plain.all.at[0].seeds, 2u);
  EXPECT_NE(plain.all.at[1].mean, sweep->curves[1].all.at[1].mean);
  EXPECT_TRUE(std::ranges::none_of(sweep->validity,
                                   [](const ValidityLine& line) { return line.id == "one-seed"; }));
}

TEST(FlowSweep, ThreadsChangeNothing) {
  const Config config = config_of();
  SweepCase under{"slow", &config, 0, false};
  std::string first;
  for (const uint32_t threads : {1u, 3u, 50u}) {
    SweepOptions options;
    options.seeds = 3;
    options.threads = threads;
    std::string rows;
    options.done = [&](const SweepCase& curve, uint64_t, const RunReport& report) -> Result<void> {
      rows += flow_rows(curve.name, report);
      return {};
    };
    const auto sweep = sweep_flows({{"plain", &config}, under}, options);
    ASSERT_TRUE(sweep) << sweep.error().text;
    rows += sweep_csv(*sweep) + sweep_text(*sweep);
    if (first.empty()) first = rows;
    EXPECT_EQ(rows, first) << threads;
  }
}

TEST(FlowSweep, WhatIsWritten) {
  const Config config = config_of();
  SweepOptions options;
  options.seeds = 3;
  std::string rows = flow_rows_header();
  options.done = [&](const SweepCase& curve, uint64_t, const RunReport& report) -> Result<void> {
    rows += flow_rows(curve.name, report);
    return {};
  };
  SweepCase under{"roce, slow", &config, 0, false};
  const auto sweep = sweep_flows({{"all", &config}, under}, options);
  ASSERT_TRUE(sweep) << sweep.error().text;
  const uint64_t flows = sweep->curves[0].all.flows + sweep->curves[1].all.flows;
  EXPECT_EQ(static_cast<uint64_t>(std::ranges::count(rows, '\n')), flows + 1);
  EXPECT_NE(rows.find("\n\"roce, slow\",7,"), std::string::npos);

  const std::string csv = sweep_csv(*sweep);
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(csv, '\n')),
            3 + sweep->curves[0].rows.size() + sweep->curves[1].rows.size());
  EXPECT_NE(csv.find("\n\"roce, slow\",<= 1 KB,300,1000,"), std::string::npos);

  const std::string text = sweep_text(*sweep);
  EXPECT_NE(text.find("seeds 5 to 7"), std::string::npos);
  EXPECT_NE(text.find(" +- "), std::string::npos);

  const std::string script = sweep_script(*sweep, "x.svg", "it's");
  EXPECT_NE(script.find("title 'roce, slow'"), std::string::npos);
  EXPECT_NE(script.find("yerrorlines"), std::string::npos);
  EXPECT_NE(script.find("'it''s'"), std::string::npos);
}

TEST(FlowSweep, ASeedWithoutFlowsTakesNoPartInMeans) {
  std::string text = kText;
  text.replace(text.find("1ms\"\n"), 5, "1us\"\n");
  const Config config = config_of(text);
  SweepOptions options;
  options.seeds = 40;
  std::vector<double> medians;
  options.done = [&](const SweepCase&, uint64_t, const RunReport& report) -> Result<void> {
    const auto& flows = *report.traffic->groups[0].slowdowns;
    if (!flows.empty()) medians.push_back(slowdown_of_all(flows).at[0]);
    return {};
  };
  const auto sweep = sweep_flows({{"few", &config}}, options);
  ASSERT_TRUE(sweep) << sweep.error().text;
  ASSERT_GT(medians.size(), 1u);
  ASSERT_LT(medians.size(), 40u);
  const Estimate& all = sweep->curves[0].all.at[0];
  EXPECT_EQ(all.seeds, medians.size());
  EXPECT_DOUBLE_EQ(all.mean, estimate(medians).mean);
  EXPECT_GE(all.mean, 0.9999);
  EXPECT_NE(sweep_text(*sweep).find(" (" + std::to_string(medians.size()) + ")"),
            std::string::npos);
}

TEST(FlowSweep, SeedsAreThoseOfEachConfiguration) {
  const Config five = config_of();
  std::string text = kText;
  text.replace(text.find("seed = 5"), 8, "seed = 9");
  const Config nine = config_of(text);
  SweepOptions options;
  options.seeds = 2;
  const auto sweep = sweep_flows({{"a", &five}, {"b", &nine}}, options);
  ASSERT_TRUE(sweep) << sweep.error().text;
  const std::string said = sweep_text(*sweep);
  EXPECT_NE(said.find("# seeds 5 to 6 (a), 9 to 10 (b);"), std::string::npos) << said;
}

TEST(FlowSweep, ErrorsNameCurveAndSeed) {
  std::string text = kText;
  const Config none = config_of(text + "slowdown = false\n");
  const auto sweep = sweep_flows({{"c", &none}}, {});
  ASSERT_FALSE(sweep);
  EXPECT_EQ(sweep.error().text,
            "c, seed 5: no [[traffic]] of pattern \"poisson\" or with slowdown = true");
}

}  // namespace
}  // namespace understudy
