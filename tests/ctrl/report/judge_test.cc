#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctrl/report/json.h"
#include "ctrl/report/summary.h"
#include "ctrl/report/table.h"
#include "tests/ctrl/report/sample.h"

namespace understudy {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Judge : public ::testing::Test {
 protected:
  Judge() {
    report.jobs.push_back(sample_job());
    report.virtual_clock = false;
    report.loop.emplace();
  }
  std::vector<CollectiveReport>& collectives() { return report.jobs[0].collectives; }
  const std::vector<std::string>& reasons() {
    judge(report);
    EXPECT_EQ(report.verdict.faithful, report.verdict.reasons.empty());
    return report.verdict.reasons;
  }
  /// The loop stands still for `length` in the middle of operation `i`.
  void stand_still(size_t i, Duration length) {
    report.loop->kept.push_back({collectives()[i].entry + Duration::us(50), length});
  }

  RunReport report = minimal_report();
};

TEST_F(Judge, GoodRunIsFaithful) {
  EXPECT_THAT(reasons(), IsEmpty());
  EXPECT_EQ(report.verdict.judged, 4u);  // the timed ones
  for (const CollectiveReport& c : collectives()) EXPECT_TRUE(c.faithful);
}

TEST_F(Judge, ToleranceIsTheBorder) {
  collectives()[1].lateness = Duration::us(1);  // 1 % of 100 us
  EXPECT_THAT(reasons(), IsEmpty());
  collectives()[1].lateness = Duration::us(1) + Duration::ps(1);
  EXPECT_THAT(reasons(), ElementsAre(AllOf(HasSubstr("4 KiB, iteration 0"),
                                           HasSubstr("1 % of the modelled 100.0 us"),
                                           HasSubstr("allowed: 1 %"))));
  EXPECT_FALSE(collectives()[1].faithful);
  EXPECT_TRUE(collectives()[2].faithful);
  report.tolerance = 0.02;
  EXPECT_THAT(reasons(), IsEmpty());
}

// An estimate is neither faithful nor known to be wrong.
TEST_F(Judge, JobWhoseModelIsAnEstimateIsNotJudged) {
  report.jobs[0].not_judged = "the plan's times are estimates";
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("'allreduce': the plan's times are estimates")));
  EXPECT_TRUE(report.verdict.not_judged);
  EXPECT_THAT(report_table(report),
              AllOf(HasSubstr("# verdict: not judged\n"), HasSubstr(" not judged\n"),
                    Not(HasSubstr(" faithful\n"))));
  EXPECT_THAT(report_json(report),
              AllOf(HasSubstr("\"not_judged\": true"), HasSubstr("\"faithful\": false")));
  collectives()[1].lateness = Duration::us(2);
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("departures were")));
  EXPECT_FALSE(report.verdict.not_judged);
}

TEST_F(Judge, GapIsNamedWhereItOverlaps) {
  collectives()[4].lateness = Duration::us(50'300);
  collectives()[4].measured = Duration::us(50'400);
  stand_still(4, Duration::us(50'300));
  collectives()[5].entry = collectives()[4].end() + Duration::us(100);
  EXPECT_THAT(reasons(),
              ElementsAre("job 'allreduce', 64 KiB, iteration 0: departures were 50.30 ms late, "
                          "50300 % of the modelled 100.0 us (allowed: 1 %); the packet loop stood "
                          "still for 50.30 ms at 1.854 ms"));
}

/// The message that opened it waited while the loop stood still, so entry is seen at the gap's end.
TEST_F(Judge, GapBeforeALateEntryIsNamed) {
  collectives()[4].lateness = Duration::us(50'300);
  report.loop->kept = {{collectives()[4].entry - Duration::us(50'300), Duration::us(50'300)}};
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("stood still for 50.30 ms")));
}

TEST_F(Judge, GapElsewhereIsNotBlamed) {
  collectives()[1].lateness = Duration::us(20);
  stand_still(4, Duration::us(30));
  EXPECT_THAT(reasons(), ElementsAre(Not(HasSubstr("stood still"))));
}

TEST_F(Judge, LateWarmUpIsForgivenButNotFaithful) {
  collectives()[0].lateness = Duration::ms(5);
  EXPECT_THAT(reasons(), IsEmpty());
  EXPECT_FALSE(collectives()[0].faithful);
}

TEST_F(Judge, WrongContentsOfWarmUpAreNot) {
  collectives()[0].size_mismatches = 1;
  collectives()[3].wrong_elements = 3;
  EXPECT_THAT(
      reasons(),
      ElementsAre(AllOf(HasSubstr("4 KiB, warm-up 0"), HasSubstr("1 message did not")),
                  AllOf(HasSubstr("64 KiB, warm-up 0"), HasSubstr("3 wrong elements of 16384"))));
}

TEST_F(Judge, NothingModelledAllowsNoLateness) {
  collectives()[1].modelled = Duration();
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("500.0 ns late")));
}

TEST_F(Judge, JobThatWasNotFinished) {
  collectives().pop_back();
  report.ended_by = "SIGTERM";
  EXPECT_THAT(reasons(), ElementsAre("job 'allreduce': 5 of 6 operations were done, the run was "
                                     "ended by SIGTERM"));
}

TEST_F(Judge, OperationThatDidNotGoOn) {
  collectives().pop_back();
  report.jobs[0].standing = "operation 6 of 6 does not go on: rank 1 waits";
  EXPECT_THAT(reasons(), ElementsAre("job 'allreduce': 5 of 6 operations were done; operation 6 of "
                                     "6 does not go on: rank 1 waits"));
}

/// Each of several communicators has a verdict; the run's names those that did not do all.
TEST_F(Judge, CommunicatorsOneAfterAnother) {
  JobReport& job = report.jobs[0];
  for (size_t i = 3; i < 6; ++i) collectives()[i].communicator = 1;
  const Time joined = Time::zero() + Duration::ms(1);
  job.communicators = {
      {.joined = joined, .ended = joined, .end = "they left", .planned = 3, .done = 3},
      {.joined = joined, .ended = joined, .end = "they left", .planned = 3, .done = 3}};
  job.communicators_wanted = 2;
  EXPECT_THAT(reasons(), IsEmpty());
  EXPECT_TRUE(job.communicators[0].faithful && job.communicators[1].faithful);
  EXPECT_THAT(report_table(report),
              HasSubstr("# communicator 2: joined at 1.000 ms, 3 of 3 operations, faithful; they"));

  collectives()[1].lateness = Duration::us(2);
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("'allreduce', communicator 1, 4 KiB, iteration 0")));
  EXPECT_FALSE(job.communicators[0].faithful);
  EXPECT_TRUE(job.communicators[1].faithful);
  EXPECT_THAT(report_json(report),
              AllOf(HasSubstr("\"verdict\": \"not faithful\""), HasSubstr("\"communicator\": 2")));

  collectives()[1].lateness = Duration();
  collectives().pop_back();
  job.communicators[1].done = 2;
  job.communicators[1].end = "rank 0 has gone";
  job.communicators_wanted = 3;
  EXPECT_THAT(reasons(),
              ElementsAre("job 'allreduce', communicator 2: 2 of 3 operations were done: "
                          "rank 0 has gone",
                          "job 'allreduce': 2 of 3 communicators have come"));
  EXPECT_TRUE(job.communicators[0].faithful);
  EXPECT_FALSE(job.communicators[1].faithful);

  job.communicators[1] = job.communicators[0];
  job.communicators_wanted.reset();
  job.not_judged = "an estimate";
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("an estimate")));
  EXPECT_TRUE(job.communicators[0].not_judged);
}

TEST_F(Judge, FailuresOfAJob) {
  report.jobs[0].failed = true;
  report.jobs[0].violations = 2;
  report.jobs[0].node_checks = {{0, 4096, 0}, {1, 65536, 7}};
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("a queue pair failed"),
                                     HasSubstr("2 messages of the real node broke the protocol"),
                                     HasSubstr("64 KiB: the real node found 7 wrong elements")));
}

TEST_F(Judge, FramesThatADeviceLost) {
  PortReport port;
  port.name = "p0";
  port.device_counters = {{"rx_missed", 3}, {"tx_retried", 9}, {"tx_link_down", 5}};
  report.ports.push_back(port);
  EXPECT_THAT(reasons(), ElementsAre("port p0: the device lost 3 frames (rx_missed)"));
}

TEST_F(Judge, ServiceIsJudgedByTheGapsOfItsConnection) {
  report.jobs.clear();
  const Time from = Time::zero() + Duration::s(1), to = Time::zero() + Duration::s(2);
  report.services.push_back({"w0", 18515, "write_bw", "10.9.0.200", from, to, ""});
  report.loop->kept = {{from + Duration::ms(1), Duration::ms(10)}};
  EXPECT_THAT(reasons(), IsEmpty());
  EXPECT_EQ(report.verdict.judged, 1u);
  // Only the part inside the connection counts.
  report.loop->kept.push_back({to - Duration::ms(5), Duration::ms(500)});
  EXPECT_THAT(reasons(), ElementsAre(AllOf(HasSubstr("service w0:18515 (write_bw)"),
                                           HasSubstr("1.5 % of a client's connection"),
                                           HasSubstr("10.00 ms at 1.001 s"),
                                           HasSubstr("500.0 ms at 1.995 s"))));
  report.loop->kept.clear();
  report.services[0].error = "another kind of client";
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("another kind of client")));
}

TEST_F(Judge, ClientIsJudgedByTheGapsOfItsTraffic) {
  report.jobs.clear();
  const Time from = Time::zero() + Duration::s(1), to = Time::zero() + Duration::s(2);
  report.clients.push_back(
      {"w1", "10.9.0.1", 18515, "write_bw", 4096, 1000, 1, 1000, from, to, ""});
  report.loop->kept = {{from + Duration::ms(1), Duration::ms(10)}};
  EXPECT_THAT(reasons(), IsEmpty());
  EXPECT_EQ(report.verdict.judged, 1u);
  report.loop->kept = {{from + Duration::ms(1), Duration::ms(20)}};
  EXPECT_THAT(reasons(),
              ElementsAre(AllOf(HasSubstr("client of 10.9.0.1:18515 (write_bw) on node w1"),
                                HasSubstr("2 % of its traffic's time"))));
  report.loop->kept.clear();
  report.clients[0].error = "the server closed";
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("the server closed")));
}

TEST_F(Judge, NothingToJudge) {
  report.jobs.clear();
  EXPECT_THAT(reasons(), IsEmpty());
  EXPECT_EQ(report.verdict.judged, 0u);
}

TEST(Summary, MeansOfTimedOperationsOnly) {
  RunReport report = minimal_report();
  report.jobs.push_back(sample_job());
  JobReport& job = report.jobs[0];
  job.collectives[0].measured = Duration::s(9);  // warm-up
  job.collectives[1].measured = Duration::us(110);
  job.collectives[2].measured = Duration::us(130);
  judge(report);
  const std::vector<SizeSummary> rows = summarise(job);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].bytes, 4096u);
  EXPECT_EQ(rows[0].timed, 2u);
  EXPECT_EQ(rows[0].time, Duration::us(120));
  EXPECT_FALSE(rows[0].node_reported);
  EXPECT_FALSE(rows[0].wrong_elements);
  EXPECT_TRUE(rows[0].faithful);
  EXPECT_DOUBLE_EQ(rows[0].difference_percent(), 20);
  EXPECT_DOUBLE_EQ(rows[1].algorithm_bandwidth(), 65536 / 101e-6);
  EXPECT_DOUBLE_EQ(rows[1].algorithm_bandwidth(), 65536 / 101e-6);
}

TEST(Summary, NodesTimeOnlyIfItReportedAll) {
  JobReport job = sample_job();
  job.collectives[1].node_reported = Duration::us(200);
  EXPECT_EQ(summarise(job)[0].time, Duration::us(101));
  job.collectives[2].node_reported = Duration::us(300);
  EXPECT_EQ(summarise(job)[0].time, Duration::us(250));
  EXPECT_TRUE(summarise(job)[0].node_reported);
  EXPECT_FALSE(summarise(job)[1].node_reported);
}

TEST(Summary, WrongElementsOfBothSourcesAddUp) {
  RunReport report = minimal_report();
  report.jobs.push_back(sample_job());
  report.jobs[0].collectives[3].wrong_elements = 2;
  report.jobs[0].node_checks = {{0, 4096, 0}, {1, 65536, 5}};
  judge(report);
  const std::vector<SizeSummary> rows = summarise(report.jobs[0]);
  EXPECT_EQ(rows[0].wrong_elements, 0u);
  EXPECT_TRUE(rows[0].faithful);
  EXPECT_EQ(rows[1].wrong_elements, 7u);
  EXPECT_FALSE(rows[1].faithful);
}

TEST(Summary, SizeWithoutATimedOperation) {
  JobReport job = sample_job();
  job.collectives.resize(4);
  const std::vector<SizeSummary> rows = summarise(job);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].timed, 0u);
  EXPECT_FALSE(rows[1].faithful);
}

TEST_F(Judge, ProgramsOfKernelsHaveToEndWell) {
  report.kernels = {{"gpu", 0, {}}};
  EXPECT_THAT(reasons(), IsEmpty());
  EXPECT_EQ(report.verdict.judged, 5u);
  report.kernels = {{"gpu", 1, {}}, {"gpu2", std::nullopt, {}}};
  EXPECT_THAT(reasons(), ElementsAre("the program of node \"gpu\" ended with status 1",
                                     "the program of node \"gpu2\" had not ended"));
  report.ended_by = "SIGINT";
  EXPECT_THAT(reasons(), Contains("the program of node \"gpu2\" had not ended: the run was ended "
                                  "by SIGINT"));
}

}  // namespace
}  // namespace understudy
