// Training iterations of emulated ranks: what an injected delay, a straggler, computing and overlap
// make of their time, packet by packet.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/report/json.h"
#include "ctrl/report/table.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

std::string job(const std::string& keys) {
  return "format = 1\n[[node]]\nname = \"w\"\ncount = 4\n"
         "link = { rate = \"100Gbit/s\", latency = \"500ns\" }\n"
         "[[job]]\nname = \"step\"\ncollective = \"all_reduce\"\nranks = [\"w*\"]\n"
         "sizes = [\"64KiB\", \"1MiB\", \"256KiB\"]\norder = \"iteration\"\n" +
         keys;
}

Result<RunReport> run(const std::string& text, bool timeline = false) {
  const ConfigResult config = load_config_text(text, "f");
  if (!config) return fail(describe(config.error()));
  SimulateOptions options;
  options.timeline = timeline;
  return compile_and_simulate(*config, options);
}

RankJobReport ran(const std::string& keys) {
  const auto report = run(job(keys));
  if (!report) {
    ADD_FAILURE() << report.error().text;
    return {};
  }
  return report->traffic->jobs.at(0);
}

double us(Duration time) { return time.microseconds(); }

TEST(SimulateIteration, AnIterationIsOneOperationOfEverySize) {
  const RankJobReport report = ran("iterations = 2\nwarmup = 1\ninterval = \"1ms\"\n");
  ASSERT_EQ(report.operations.size(), 9u);
  EXPECT_EQ(report.per_iteration, 3u);
  EXPECT_EQ(report.operations[3].bytes, 65536u);
  EXPECT_EQ(report.operations[4].bytes, 1u << 20);
  EXPECT_TRUE(report.operations[2].warmup);
  EXPECT_EQ(report.operations[8].iteration, 1u);
  ASSERT_EQ(report.iterations.size(), 3u);
  for (const IterationReport& iteration : report.iterations) {
    EXPECT_EQ(iteration.compute, Duration());
    EXPECT_EQ(iteration.exposed, iteration.mean);
    EXPECT_EQ(iteration.exposed_operations, 3u);
  }
  EXPECT_EQ(report.iterations[2].start - report.iterations[1].start,
            report.iterations[1].mean + Duration::ms(1));
}

TEST(SimulateIteration, ComputingAddsToWhatItDoesNotOverlap) {
  const double alone = us(ran("").iterations[0].mean);
  const std::string times = "before = [\"3ms\", \"1ms\", \"2ms\"], after = \"500us\"";
  const RankJobReport serial = ran("compute = { " + times + " }\n");
  EXPECT_NEAR(us(serial.iterations[0].mean), alone + 6'500, 1);
  EXPECT_EQ(serial.iterations[0].compute, Duration::us(6'500));
  const RankJobReport overlapped = ran("compute = { " + times + ", overlap = true }\n");
  EXPECT_EQ(overlapped.iterations[0].exposed_operations, 1u);
  EXPECT_NEAR(us(overlapped.iterations[0].mean), 6'500 + us(overlapped.operations[2].mean), 1);
}

TEST(SimulateIteration, AnInjectedDelayCountsForEveryExposedOperation) {
  for (const char* compute :
       {"", "compute = { before = \"5ms\" }\n",
        "compute = { before = [\"5ms\", \"5ms\", \"1us\"], overlap = true }\n"}) {
    const IterationReport none = ran(compute).iterations[0];
    const IterationReport late =
        ran(std::string(compute) + "injected_delay = \"2ms\"\n").iterations[0];
    EXPECT_EQ(none.exposed_operations, late.exposed_operations);
    EXPECT_NEAR(us(late.mean - none.mean), 2'000.0 * late.exposed_operations, 1) << compute;
  }
}

TEST(SimulateIteration, ASlowRankHoldsUpAll) {
  const std::string before = "compute = { before = \"2ms\"";
  const RankJobReport equal = ran(before + " }\n");
  const RankJobReport slow = ran(before + ", slow = [ { rank = 2, factor = 1.25 } ] }\n");
  EXPECT_NEAR(us(slow.iterations[0].mean - equal.iterations[0].mean), 1'500, 5);
  EXPECT_EQ(slow.iterations[0].compute, Duration::us(6'000 + 1'500 / 4));
}

TEST(SimulateIteration, JitterFollowsFromTheSeed) {
  const std::string keys =
      "iterations = 20\njitter = { distribution = \"exponential\", mean = \"1ms\" }\n";
  const auto a = run("seed = 5\n" + job(keys)), b = run("seed = 5\n" + job(keys)),
             c = run("seed = 6\n" + job(keys));
  ASSERT_TRUE(a && b && c) << a.error().text;
  EXPECT_EQ(report_json(*a), report_json(*b));
  Duration sum, other;
  for (const IterationReport& i : a->traffic->jobs[0].iterations) sum += i.mean;
  for (const IterationReport& i : c->traffic->jobs[0].iterations) other += i.mean;
  EXPECT_NE(sum, other);
  // The longest of four exponential delays is 1 + 1/2 + 1/3 + 1/4 of their mean, in each of 60
  // operations; the standard error is 0.15.
  const double none = us(ran("").iterations[0].mean);
  EXPECT_NEAR(us(sum) / 20 - none, 3 * 1'000 * 25 / 12.0, 3 * 3 * 150);
}

TEST(SimulateIteration, TableAndTimelineShowIt) {
  const auto report =
      run(job("compute = { before = \"1ms\", after = \"1ms\", overlap = true }\n"), true);
  ASSERT_TRUE(report);
  const std::string table = report_table(*report);
  EXPECT_NE(table.find("#  iteration   operations"), std::string::npos) << table;
  EXPECT_NE(table.find("        mean            3"), std::string::npos) << table;
  const TimelineTrack& compute = report->timeline.at(0);
  EXPECT_EQ(compute.name, "compute");
  ASSERT_EQ(compute.slices.size(), 4u);
  EXPECT_EQ(compute.slices[1].from, Time::zero() + Duration::ms(1));
  EXPECT_EQ(compute.slices[3].length, Duration::ms(1));
}

TEST(SimulateIteration, SizesMayStillTakeTurnsOneByOne) {
  const std::string text =
      job("iterations = 2\ncompute = { before = [\"1ms\", \"2ms\", \"3ms\"] }\n");
  const auto report = run(std::string(text).replace(text.find("\"iteration\""), 11, "\"size\""));
  ASSERT_TRUE(report) << report.error().text;
  const RankJobReport& job = report->traffic->jobs[0];
  EXPECT_EQ(job.per_iteration, 1u);
  ASSERT_EQ(job.iterations.size(), 6u);
  EXPECT_EQ(job.iterations[1].compute, Duration::ms(1));
  EXPECT_EQ(job.iterations[4].compute, Duration::ms(3));
}

}  // namespace
}  // namespace understudy
