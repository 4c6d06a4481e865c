// Training iterations with one real node, the reference node, beside the plan of all other ranks:
// what they take when every rank is carried out packet by packet.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/report/table.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

constexpr char kLink[] = "link = { rate = \"100Gbit/s\", latency = \"500ns\" }\n";

/// Of four ranks; the first one is real, or all are emulated.
std::string job(bool real, const std::string& keys, const std::string& order = "iteration") {
  const std::string node =
      real ? "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/24\"\n[[node]]\nname = \"gpu\"\nreal = true\n" +
                 std::string(kLink) + "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n"
           : "[[node]]\nname = \"gpu\"\n" + std::string(kLink);
  return "format = 1\n" + node + "[[node]]\nname = \"w\"\ncount = 3\n" + kLink +
         "[[job]]\nname = \"step\"\ncollective = \"all_reduce\"\nranks = [\"gpu\", \"w*\"]\n"
         "sizes = [\"64KiB\", \"1MiB\", \"256KiB\"]\norder = \"" +
         order + "\"\niterations = 2\nwarmup = 1\n" + keys;
}

Result<RunReport> run(const std::string& text) {
  const ConfigResult config = load_config_text(text, "f");
  if (!config) return fail(describe(config.error()));
  return compile_and_simulate(*config);
}

/// Of the rank on the real node, or of all of them.
std::vector<IterationReport> iterations(const std::string& text) {
  const auto report = run(text);
  if (!report) {
    ADD_FAILURE() << report.error().text;
    return std::vector<IterationReport>(3);
  }
  EXPECT_TRUE(report->verdict.faithful) << verdict_text(*report, 5);
  const auto& found =
      report->jobs.empty() ? report->traffic->jobs.at(0).iterations : report->jobs[0].iterations;
  EXPECT_EQ(found.size(), 3u);
  return found;
}

double us(Duration time) { return time.microseconds(); }

struct Case {
  std::string all, real;  ///< keys
};

TEST(SimulateIterationNode, TheFoldTakesWhatAllRanksTake) {
  const std::string delayed =
      "skew = [ { rank = 1, delay = \"2ms\" }, { rank = 2, delay = \"2ms\" }, "
      "{ rank = 3, delay = \"2ms\" } ]\n";
  const std::string injected = "injected_delay = \"2ms\"\n";
  const std::string straggler = "skew = [ { rank = 2, delay = \"3ms\" } ]\n";
  const std::string serial =
      "compute = { before = [\"3ms\", \"1ms\", \"1us\"], after = \"1ms\" }\n";
  const std::string overlapped =
      "interval = \"100us\"\ncompute = { before = [\"3ms\", \"1us\", \"1us\"], beside = \"10us\", "
      "after = \"1ms\", overlap = true, slow = [ { rank = 3, factor = 1.5 } ] }\n";
  const std::string grouped = "compute = { before = \"3ms\" }\ngroup = true\n";
  const Case cases[] = {
      {"", ""},
      {delayed, injected},
      {straggler, straggler},
      {delayed + serial, injected + serial},
      {delayed + overlapped, injected + overlapped},
      {overlapped + straggler + "channels = 2\n", overlapped + straggler + "channels = 2\n"},
      {grouped, grouped}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.real);
    const auto all = iterations(job(false, c.all)), real = iterations(job(true, c.real));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(all[i].iteration, real[i].iteration);
      EXPECT_EQ(all[i].warmup, real[i].warmup);
      EXPECT_EQ(all[i].exposed_operations, real[i].exposed_operations);
    }
    // The last one of all ranks, and of this one.
    EXPECT_NEAR(us(real[2].mean), us(all[2].mean), 0.005 * us(all[2].mean));
  }
}

TEST(SimulateIterationNode, TheRealRankIsNotDelayed) {
  // Alone it would be done with each operation d earlier; it waits for the others.
  const auto none = iterations(job(true, "compute = { before = \"1ms\" }\n"));
  const auto late =
      iterations(job(true, "compute = { before = \"1ms\" }\ninjected_delay = \"2ms\"\n"));
  EXPECT_NEAR(us(late[2].mean - none[2].mean), 6'000, 1);
  EXPECT_EQ(late[2].compute, Duration::ms(3));
}

// As run does, which cannot know when the real rank enters.
TEST(SimulateIterationNode, EmulatedRanksEnterThatMuchAfterTheFirstCredit) {
  const std::string entry = "entry = \"first_credit\"\n";
  const auto none = run(job(true, entry)),
             late = run(job(true, entry + "injected_delay = \"2ms\"\n"));
  ASSERT_TRUE(none && late);
  for (size_t i = 3; i < 9; ++i) {
    const Duration more =
        *late->jobs[0].collectives[i].node_reported - *none->jobs[0].collectives[i].node_reported;
    EXPECT_NEAR(us(more), 2'000, 2) << i;
  }
}

TEST(SimulateIterationNode, TheTimelineHasWhatItComputed) {
  const ConfigResult config =
      load_config_text(job(true, "compute = { before = \"1ms\", after = \"2ms\" }\n"), "f");
  ASSERT_TRUE(config);
  SimulateOptions options;
  options.timeline = true;
  const auto report = compile_and_simulate(*config, options);
  ASSERT_TRUE(report) << report.error().text;
  ASSERT_EQ(report->timeline.size(), 4u);  // beside both neighbours' messages
  const std::vector<TimelineSlice>& slices = report->timeline[0].slices;
  ASSERT_EQ(slices.size(), 3u * 4);
  EXPECT_EQ(slices[3].length, Duration::ms(2));
  EXPECT_EQ(slices[1].from,
            report->jobs[0].collectives[0].entry + *report->jobs[0].collectives[0].node_reported);
}

TEST(SimulateIterationNode, JitterIsThatOfEmulatedRanks) {
  const std::string keys =
      "jitter = { distribution = \"exponential\", mean = \"1ms\" }\ncompute = { before = \"1us\" "
      "}\n";
  const auto report = run(job(true, keys));
  ASSERT_TRUE(report) << report.error().text;
  const auto& iterations = report->jobs[0].iterations;
  EXPECT_NE(iterations[1].mean, iterations[2].mean);
  EXPECT_GT(us(iterations[2].mean), 1'000);
}

TEST(SimulateIterationNode, ResultsAreReportedByTheirSizes) {
  const auto report = run(job(true, ""));
  ASSERT_TRUE(report) << report.error().text;
  const JobReport& of_real = report->jobs[0];
  ASSERT_EQ(of_real.collectives.size(), 9u);
  EXPECT_EQ(of_real.planned, 9u);
  for (size_t i = 0; i < 9; ++i) {
    const CollectiveReport& c = of_real.collectives[i];
    EXPECT_EQ(c.size_index, i % 3);
    EXPECT_EQ(c.warmup, i < 3);
    EXPECT_EQ(c.iteration, i < 3 ? 0 : i / 3 - 1);
    EXPECT_LE(c.lateness, Duration());
    EXPECT_NEAR(us(*c.node_reported), us(c.modelled), 0.02 * us(c.modelled));
  }
  // Both are what all ranks take packet by packet.
  const auto all = run(job(false, ""));
  ASSERT_TRUE(all) << all.error().text;
  const auto& operations = all->traffic->jobs.at(0).operations;
  ASSERT_EQ(operations.size(), 9u);
  for (size_t i = 0; i < 9; ++i) {
    const double took = us(operations[i].mean);
    EXPECT_NEAR(us(of_real.collectives[i].modelled), took, 0.01 * took) << i;
    EXPECT_NEAR(us(*of_real.collectives[i].node_reported), took, 0.01 * took) << i;
  }
  const std::string table = report_table(*report);
  EXPECT_NE(table.find("#  iteration   operations"), std::string::npos) << table;
  EXPECT_NE(table.find("        mean            3"), std::string::npos) << table;
}

TEST(SimulateIterationNode, SizesMayStillTakeTurnsOneByOne) {
  const auto report =
      run(job(true, "compute = { before = [\"1ms\", \"2ms\", \"3ms\"] }\n", "size"));
  ASSERT_TRUE(report) << report.error().text;
  const auto& iterations = report->jobs[0].iterations;
  ASSERT_EQ(iterations.size(), 9u);
  EXPECT_EQ(iterations[3].compute, Duration::ms(2));
  EXPECT_EQ(iterations[8].compute, Duration::ms(3));
}

}  // namespace
}  // namespace understudy
