// Gradients of a network that replicas train: iterations packet by packet and beside a real node, and
// how many of the delays before their all-reduces show.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/report/iteration_table.h"
#include "ctrl/report/table.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

constexpr char kLink[] = "link = { rate = \"400Mbit/s\", latency = \"1us\" }\n";

/// BERT-large on two nodes, buckets and links 250 times smaller than at 100 Gbit/s; the first node is real
/// or not.
std::string job(bool real, const std::string& delay) {
  const std::string first =
      real ? "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/24\"\n[[node]]\nname = \"gpu\"\nreal = true\n" +
                 std::string(kLink) + "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n"
           : "[[node]]\nname = \"gpu\"\n" + std::string(kLink);
  // Real ranks are not delayed: nor is this one where it is emulated.
  const std::string late = real ? "injected_delay = \"" + delay + "\"\n"
                                : "skew = [ { rank = 1, delay = \"" + delay + "\" } ]\n";
  return "format = 1\n" + first + "[[node]]\nname = \"w\"\n" + kLink +
         "[[job]]\nname = \"bert\"\ncollective = \"all_reduce\"\nranks = [\"gpu\", \"w\"]\n"
         "warmup = 1\niterations = 2\n" +
         late +
         "[job.ddp]\nmodel = \"bert-large\"\nfind_unused_parameters = true\nscale = 250\n"
         "forward = \"80ms\"\nbackward = \"160ms\"\noptimizer = \"20ms\"\n";
}

double ms(Duration time) { return time.microseconds() / 1000; }

struct Ran {
  RunReport report;
  std::vector<IterationReport> iterations;
};

Ran run(const std::string& text) {
  const ConfigResult config = load_config_text(text, "f");
  EXPECT_TRUE(config) << describe(config.error());
  Result<RunReport> report = compile_and_simulate(*config);
  EXPECT_TRUE(report) << report.error().text;
  EXPECT_TRUE(report->verdict.faithful) << verdict_text(*report, 5);
  const auto& found =
      report->jobs.empty() ? report->traffic->jobs.at(0).iterations : report->jobs[0].iterations;
  EXPECT_EQ(found.size(), 3u);
  std::vector<IterationReport> iterations = found;
  return {std::move(*report), std::move(iterations)};
}

/// Iterations are 260 ms of computing and the last buckets, which are ready when backward is over.
TEST(SimulateDdp, BackwardHidesAllButTheLastBuckets) {
  const Ran ran = run(job(false, "0ms"));
  for (const IterationReport& iteration : ran.iterations) {
    EXPECT_EQ(iteration.compute, Duration::ms(260));
    EXPECT_EQ(iteration.exposed_operations, 3u);
    // The last two buckets, 160.8 MB / 250 at 12.25 GB/s / 250 and the map.
    EXPECT_NEAR(ms(iteration.exposed), 12.6, 0.1);
  }
}

TEST(SimulateDdp, ADelayAddsAsManyTimesItselfAsAllReducesAreExposed) {
  for (const bool real : {false, true}) {
    SCOPED_TRACE(real);
    const Ran some = run(job(real, "8ms")), more = run(job(real, "16ms"));
    EXPECT_EQ(some.iterations[2].exposed_operations, 39u);
    EXPECT_EQ(more.iterations[2].exposed_operations, 39u);
    const Duration rise = more.iterations[2].mean - some.iterations[2].mean;
    EXPECT_NEAR(ms(rise) / 8, 39, 0.01);
  }
}

TEST(SimulateDdp, ARealNodeTakesWhatPacketsTake) {
  for (const char* delay : {"0ms", "1ms", "4ms"}) {
    SCOPED_TRACE(delay);
    const Ran all = run(job(false, delay)), real = run(job(true, delay));
    const double took = ms(all.iterations[2].mean);
    EXPECT_NEAR(ms(real.iterations[2].mean), took, 0.001 * took);
    EXPECT_EQ(real.iterations[2].exposed_operations, all.iterations[2].exposed_operations);
    const auto pace = iteration_pace(real.report.jobs.at(0));
    ASSERT_TRUE(pace);
    EXPECT_NEAR(ms(*pace), took, 0.001 * took);
  }
}

}  // namespace
}  // namespace understudy
