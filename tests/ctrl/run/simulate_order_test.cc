// Start times of jobs and jobs after other jobs, packet by packet and beside reference nodes.
#include <string>

#include "ctrl/report/json.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

std::string nodes(bool real) {
  const std::string link = "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
  return "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n[queues]\nbuffer = \"1GB\"\n" +
         ("[[node]]\nname = \"a\"\n" + std::string(real ? "real = true\n" : "") + link) +
         "[[node]]\nname = \"w\"\ncount = 5\n" + link +
         (real ? "[[port]]\nreal = \"a\"\ndevice = \"virtual\"\n" : "");
}

std::string job(const std::string& name, const std::string& ranks, const std::string& keys = "") {
  return "[[job]]\nname = \"" + name + "\"\ncollective = \"all_reduce\"\nranks = [" + ranks +
         "]\nsizes = [\"1MiB\"]\niterations = 2\n" + keys;
}

constexpr char kRing[] = "\"a\", \"w0\", \"w1\"";
/// The other way round: it meets the first ring on every link all the same.
constexpr char kOther[] = "\"w1\", \"w0\", \"a\"";

/// What a job came to, whoever carried it out.
struct Ran {
  Time begin, end;
  Duration took;  ///< its longest operation
};

Ran ran(const RunReport& report, size_t number) {
  Ran out{Time::never(), {}, {}};
  const auto add = [&](Time start, Duration took) {
    out.begin = std::min(out.begin, start);
    out.end = std::max(out.end, start + took);
    out.took = std::max(out.took, took);
  };
  if (report.traffic && !report.traffic->jobs.empty()) {
    for (const auto& o : report.traffic->jobs.at(number).operations) add(o.start, o.longest);
  } else {
    for (const auto& c : report.jobs.at(number).collectives) add(c.entry, *c.node_reported);
  }
  return out;
}

double us(Duration time) { return time.microseconds(); }

class SimulateOrder : public testing::TestWithParam<bool> {
 protected:
  static RunReport run(const std::string& jobs) {
    return simulated(config_of(nodes(GetParam()) + jobs));
  }
};

TEST_P(SimulateOrder, AJobAfterAnotherOneHasTheNetworkForItself) {
  const Ran alone = ran(run(job("x", kRing)), 0);
  const RunReport both = run(job("x", kRing) + job("y", kOther));
  const RunReport one_by_one = run(job("x", kRing) + job("y", kOther, "after = \"x\"\n"));
  const Ran x = ran(one_by_one, 0), y = ran(one_by_one, 1);
  // Each takes what it takes alone, and both together the sum of both.
  EXPECT_NEAR(us(x.took), us(alone.took), 0.01 * us(alone.took));
  EXPECT_NEAR(us(y.took), us(alone.took), 0.01 * us(alone.took));
  EXPECT_NEAR(us(y.begin - Time::zero()), us(alone.end - Time::zero()), 20);
  EXPECT_NEAR(us(y.end - Time::zero()), 2 * us(alone.end - Time::zero()),
              0.01 * us(alone.end - Time::zero()));
  // Without, they share every link.
  for (const size_t number : {0u, 1u}) {
    EXPECT_EQ(ran(both, number).begin, Time::zero());
    EXPECT_GT(us(ran(both, number).took), 1.8 * us(alone.took));
  }
}

TEST_P(SimulateOrder, AJobBeginsAtItsStartTime) {
  const RunReport report =
      run(job("x", kRing) + job("y", kOther, "start = \"20ms\"\nafter = \"x\"\n") +
          job("z", kRing, "after = \"y\"\n"));
  const Ran y = ran(report, 1), z = ran(report, 2);
  EXPECT_EQ(y.begin, Time::zero() + Duration::ms(20));
  EXPECT_NEAR(us(z.begin - Time::zero()), us(y.end - Time::zero()), 20);
}

/// Computing before the first operation is part of the job: it begins when the other one has ended.
TEST_P(SimulateOrder, WhatAJobComputesFirstComesAfterTheOtherOneToo) {
  const RunReport report = run(job("x", kRing) + job("y", kRing,
                                                     "after = \"x\"\norder = \"iteration\"\n"
                                                     "compute = { before = \"700us\" }\n"));
  const Ran x = ran(report, 0), y = ran(report, 1);
  EXPECT_NEAR(us(y.begin - x.end), 700, 20);
  const std::vector<IterationReport>& iterations =
      GetParam() ? report.jobs[1].iterations : report.traffic->jobs[1].iterations;
  ASSERT_EQ(iterations.size(), 2u);
  EXPECT_NEAR(us(iterations[0].start - x.end), 0, 20);
  EXPECT_NEAR(us(iterations[0].mean), us(y.took) + 700, 20);
}

TEST_P(SimulateOrder, EqualRunsGiveEqualReports) {
  const std::string jobs = job("x", kRing,
                               "jitter = { distribution = \"normal\", mean = \"9us\", "
                               "deviation = \"2us\" }\n") +
                           job("y", kOther, "after = \"x\"\n");
  EXPECT_EQ(report_json(run(jobs)), report_json(run(jobs)));
}

INSTANTIATE_TEST_SUITE_P(BesideAndWithout, SimulateOrder, testing::Bool(),
                         [](const auto& info) { return info.param ? "Reference" : "Emulated"; });

/// Ranks on nodes of the other job wait for these; a rank elsewhere waits for all of them.
TEST(SimulateOrderByNode, EachRankWaitsForItsOwnNodeOrForAll) {
  const std::string jobs =
      job("x", "\"w0\", \"w1\", \"w2\"", "skew = [ { rank = 1, delay = \"900us\" } ]\n") +
      "[[job]]\nname = \"y\"\ncollective = \"send_recv\"\nranks = [\"w3\", \"w4\"]\n"
      "sizes = [\"4KiB\"]\nafter = \"x\"\n";
  const RunReport report = simulated(config_of(nodes(false) + jobs));
  const Ran x = ran(report, 0), y = ran(report, 1);
  // The last rank of x is done a little before or with the longest time from the first entry.
  EXPECT_GT(y.begin, Time::zero() + Duration::us(900));
  EXPECT_LT(us(y.begin - Time::zero()) - us(x.end - Time::zero()), 950);
  EXPECT_GE(y.begin, x.begin + x.took);
}

/// Emulated ranks of one job keep to another one's order, too, that has a real node.
TEST(SimulateOrderByNode, AJobOnAnotherRealNodeWaitsForAll) {
  const std::string link = "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
  const std::string text = nodes(true) + "[[node]]\nname = \"b\"\nreal = true\n" + link +
                           "[[port]]\nreal = \"b\"\ndevice = \"virtual\"\n" +
                           job("x", "\"a\", \"w0\"") + job("y", "\"b\", \"w3\"", "after = \"x\"\n");
  const RunReport report = simulated(config_of(text));
  EXPECT_TRUE(report.verdict.faithful);
  const Ran x = ran(report, 0), y = ran(report, 1);
  EXPECT_NEAR(us(y.begin - x.end), 0, 20);
  EXPECT_NEAR(us(y.took), us(x.took), 0.01 * us(x.took));
}

}  // namespace
}  // namespace understudy
