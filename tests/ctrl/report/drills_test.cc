// Drills are judged by operations, outages and errors, whoever reported them; and JUnit's XML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctrl/report/drills/judge_drills.h"
#include "ctrl/report/drills/junit.h"
#include "ctrl/report/json.h"
#include "ctrl/report/table.h"
#include "tests/ctrl/report/sample.h"

namespace understudy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Duration us(int64_t n) { return Duration::us(n); }
Time at(Duration d) { return Time::zero() + d; }

/// Ten operations of 4 KiB, 100 us each, one right behind the other, from 1 ms on.
class Drills : public ::testing::Test {
 protected:
  Drills() {
    JobReport job;
    job.name = "allreduce";
    job.planned = 10;
    for (uint32_t i = 0; i < 10; ++i) {
      CollectiveReport c = good_collective(0, 4096, i, at(us(1000 + 100 * i)));
      c.measured = us(100);
      job.collectives.push_back(c);
    }
    report.jobs.push_back(job);
    report.duration = us(2000);
  }
  std::vector<CollectiveReport>& operations() { return report.jobs[0].collectives; }
  /// The operation, and all behind it, end later.
  void delay(size_t operation, Duration by) {
    operations()[operation].measured += by;
    for (size_t i = operation + 1; i < operations().size(); ++i) operations()[i].entry += by;
  }
  void fail_at(Duration time, size_t done) {
    operations().resize(done);
    report.jobs[0].failed = true;
    report.jobs[0].failed_at = at(time);
  }
  void one_of_two_flows_has_ended() {
    TrafficGroupReport group;
    group.count = 2;
    group.ended = 1;
    report.traffic.emplace().groups.push_back(group);
  }
  DrillReport& drill(DrillExpectation expected, Duration from, std::optional<Duration> until) {
    DrillReport drill;
    drill.name = "flap <&\"\x01";
    drill.from = at(from);
    if (until) drill.until = at(*until);
    drill.expected = expected;
    drill.within = us(50);
    drill.slower = 0.1;
    report.drills.push_back(drill);
    return report.drills.back();
  }
  const DrillReport& judged(size_t number = 0) {
    judge_drills(report);
    judge(report);
    return report.drills[number];
  }

  RunReport report = minimal_report();
};

TEST_F(Drills, RecoveryIsTheTimeThatOperationsLost) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  delay(2, us(50));
  EXPECT_TRUE(judged().passed) << judged().text;
  EXPECT_EQ(judged().found, us(50));
  operations()[2].measured += Duration::ps(1);
  EXPECT_FALSE(judged().passed);
  EXPECT_EQ(judged().found, us(50) + Duration::ps(1));
}

TEST_F(Drills, TimeThatOverlappingOperationsLostCountsOnce) {
  drill(DrillExpectation::kRecovers, us(1210), us(1320));
  delay(2, us(50));
  operations()[3].entry += -us(50);  // a rank that waits for nobody entered it early
  operations()[3].measured += us(50);
  EXPECT_EQ(judged().found, us(50));
}

TEST_F(Drills, RecoveryIsTheLongestTimeThatAStreamStood) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  report.outages.push_back({.event = "link w1 down", .stopped = 2, .again = 2, .longest = us(51)});
  EXPECT_TRUE(judged().passed) << "not the drill's event";
  report.outages[0].drill = 0;
  EXPECT_FALSE(judged().passed);
  EXPECT_EQ(judged().found, us(51));
}

TEST_F(Drills, AStreamThatNeverFlowsAgainHasNotRecovered) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  report.outages.push_back(
      {.event = "link w1 down", .stopped = 3, .again = 2, .longest = us(5), .drill = 0});
  EXPECT_TRUE(judged().passed) << "it had nothing more to send";
  one_of_two_flows_has_ended();
  EXPECT_FALSE(judged().passed);
  EXPECT_EQ(judged().text, "1 of 3 streams that it stopped never flowed again");
}

TEST_F(Drills, FlowsThatHaveNotEndedAreNoWorkThatWasDone) {
  report.jobs.clear();
  drill(DrillExpectation::kReports, us(1210), us(1220));
  one_of_two_flows_has_ended();
  EXPECT_FALSE(judged().passed);
  EXPECT_EQ(judged().text, "nobody reported an error: not all flows had ended when the run did");
  report.traffic->groups[0].ended = 2;
  report.traffic->groups[0].took = us(2000);
  EXPECT_EQ(judged().text, "nobody reported an error: all work was done");
}

TEST_F(Drills, WhatFlowedAgainIsCounted) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  report.outages.push_back({.event = "link w1 down", .stopped = 12, .drill = 0});
  EXPECT_THAT(judged().text, HasSubstr("12 streams stopped, none of them flowed again; "));
  report.outages[0].stopped = 1;
  EXPECT_THAT(judged().text, HasSubstr("1 stream stopped, it never flowed again; "));
  report.outages[0] = {
      .event = "link w1 down", .stopped = 12, .again = 5, .longest = us(5), .drill = 0};
  EXPECT_THAT(judged().text,
              HasSubstr("12 streams stopped, 5 flowed again after up to 5.000 us; "));
  report.outages[0].again = 12;
  EXPECT_THAT(judged().text, HasSubstr("12 streams stopped, flowed again after up to 5.000 us; "));
}

TEST_F(Drills, OneThatMeetsNothingFails) {
  drill(DrillExpectation::kRecovers, us(3000), us(3100));
  EXPECT_FALSE(judged().passed);
  EXPECT_THAT(judged().text, HasSubstr("nothing ran between 3.000 ms and its end"));
}

TEST_F(Drills, OneThatDisturbsNothingSaysSo) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  EXPECT_TRUE(judged().passed);
  EXPECT_THAT(judged().text, HasSubstr("it disturbed nothing"));
}

TEST_F(Drills, WrongResultsFailAny) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  drill(DrillExpectation::kReports, us(1210), us(1220));
  operations()[5].wrong_elements = 1;
  EXPECT_FALSE(judged(0).passed);
  EXPECT_FALSE(judged(1).passed);
  EXPECT_THAT(judged(1).text, HasSubstr("1 wrong element"));
}

TEST_F(Drills, AnExpectedErrorPassesAndIsNoneOfTheRun) {
  drill(DrillExpectation::kReports, us(1210), {});
  fail_at(us(1260), 2);
  EXPECT_TRUE(judged().passed) << judged().text;
  EXPECT_TRUE(report.verdict.faithful);
  report.jobs[0].failed_at += Duration::ps(1);
  EXPECT_FALSE(judged().passed) << "later than within";
  EXPECT_FALSE(report.verdict.faithful);
}

TEST_F(Drills, AnErrorThatNobodyExpectsFails) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  fail_at(us(1215), 2);
  EXPECT_FALSE(judged().passed);
  EXPECT_THAT(judged().text, HasSubstr("a queue pair failed, 5.000 us after it began"));
}

TEST_F(Drills, AHangIsNoReport) {
  drill(DrillExpectation::kReports, us(1210), {});
  operations().resize(2);
  EXPECT_FALSE(judged().passed);
  EXPECT_THAT(judged().text, HasSubstr("nobody reported an error: job 'allreduce' hangs: 2 of 10"));
}

TEST_F(Drills, RealRanksThatLeaveHaveReported) {
  drill(DrillExpectation::kReports, us(1210), {});
  operations().resize(2);
  report.jobs[0].left_at = at(us(1250));
  EXPECT_TRUE(judged().passed);
  EXPECT_THAT(judged().text, HasSubstr("its real ranks left after 2 of 10 operations"));
}

TEST_F(Drills, CommunicatorsThatEndEarlyHaveReported) {
  drill(DrillExpectation::kReports, us(1210), {});
  operations().resize(2);
  CommunicatorReport communicator;
  communicator.planned = 10;
  communicator.done = 2;
  communicator.end = "the real ranks have left";
  report.jobs[0].communicators = {communicator};
  EXPECT_FALSE(judged().passed);
  EXPECT_THAT(judged().text, HasSubstr("hangs"));
  report.jobs[0].communicators[0].ended = at(us(1240));
  EXPECT_TRUE(judged().passed) << judged().text;
  EXPECT_EQ(judged().found, us(30));
}

TEST_F(Drills, AnErrorIsThatOfTheLastDrillBefore) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  drill(DrillExpectation::kReports, us(1510), {});
  fail_at(us(1550), 5);
  EXPECT_TRUE(judged(0).passed) << judged(0).text;
  EXPECT_TRUE(judged(1).passed) << judged(1).text;
  EXPECT_THAT(judged(0).text, Not(HasSubstr("all 5")));
}

TEST_F(Drills, AHangIsThatOfTheDrillBehindWhichNothingWasDone) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  drill(DrillExpectation::kRecovers, us(1510), {});
  operations().resize(5);
  EXPECT_TRUE(judged(0).passed) << judged(0).text;
  EXPECT_THAT(judged(1).text, HasSubstr("hangs"));
  operations().resize(2);
  EXPECT_THAT(judged(0).text, HasSubstr("hangs"));
}

TEST_F(Drills, OneThatComesAfterAnErrorFails) {
  drill(DrillExpectation::kReports, us(1210), {});
  fail_at(us(1100), 1);
  EXPECT_FALSE(judged().passed);
}

TEST_F(Drills, AllowedSlownessIsTheBorder) {
  drill(DrillExpectation::kSlower, us(1210), us(1290));
  delay(2, us(10));
  EXPECT_TRUE(judged().passed) << judged().text;
  EXPECT_EQ(judged().slowest, 0.1);
  delay(2, us(1));
  EXPECT_FALSE(judged().passed);
  EXPECT_THAT(judged().text, HasSubstr("11 % longer than usual"));
}

TEST_F(Drills, WithoutOthersTheModelledTimeIsUsual) {
  drill(DrillExpectation::kSlower, us(900), {});
  operations()[4].measured += us(20);
  EXPECT_FALSE(judged().passed);
  EXPECT_NEAR(judged().slowest.value_or(0), 0.2, 1e-9);
}

TEST_F(Drills, WhatBrokeOffIsAnError) {
  drill(DrillExpectation::kReports, us(1210), {});
  operations().resize(2);
  report.broken_off = BreakReport{at(us(1230)), report.configuration_path + ": a job never ends"};
  EXPECT_TRUE(judged().passed);
  EXPECT_EQ(judged().text,
            "a job never ends, 20.00 us after it began (expected: 50.00 us at most)");
  EXPECT_TRUE(report.verdict.faithful);
}

TEST_F(Drills, OneThatNeverBeganFails) {
  DrillReport& waiting = drill(DrillExpectation::kReports, us(1210), {});
  waiting.from = Time::never();
  waiting.awaits = "20 operations of job 'allreduce'";
  waiting.name = "late";
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  EXPECT_FALSE(judged(0).passed);
  EXPECT_THAT(judged(0).text,
              HasSubstr("it waited for 20 operations of job 'allreduce': the last"));
  EXPECT_TRUE(judged(1).passed) << judged(1).text;
  EXPECT_THAT(report_table(report), HasSubstr("# drill 'late': FAILED: it waited"));
  EXPECT_THAT(report_json(report), HasSubstr("\"from_ps\": null"));
}

TEST_F(Drills, ClientsThatFailedReportWhenTheyEnded) {
  drill(DrillExpectation::kReports, us(1210), {});
  ClientReport client;
  client.node = "w2";
  client.error = "the server closed";
  client.to = at(us(1100));
  client.ended = at(us(1230));
  report.clients.push_back(client);
  EXPECT_TRUE(judged().passed) << judged().text;
  EXPECT_EQ(judged().found, us(20));
  report.clients[0].ended = Time::never();  // it was still there at the end
  EXPECT_FALSE(judged().passed);
  EXPECT_THAT(judged().text, HasSubstr("the client on w2 hangs"));
}

TEST_F(Drills, StandInTheTable) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220)).name = "flap";
  judged();
  EXPECT_THAT(report_table(report), HasSubstr("# drill 'flap' at 1.210 ms: passed: "));
}

TEST_F(Drills, JUnitCountsAndEscapes) {
  drill(DrillExpectation::kRecovers, us(1210), us(1220));
  delay(2, us(60));
  judged();
  const std::string xml = junit_xml(report);
  EXPECT_THAT(xml, HasSubstr("tests=\"2\" failures=\"1\" errors=\"0\""));
  EXPECT_THAT(xml, HasSubstr("name=\"flap &lt;&amp;&quot;?\" time=\"0.000060000\""));
  EXPECT_THAT(xml, HasSubstr("<failure message=\""));
  EXPECT_THAT(xml, HasSubstr("name=\"the run\""));
}

TEST(JUnit, HoldsNothingThatXmlDoesNot) {
  const std::string xml = junit_error("a.toml",
                                      "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xff \xc3 "
                                      "\xed\xa0\x80 \xef\xbf\xbf \x7f\t");
  EXPECT_THAT(xml, HasSubstr("\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 ? ? ??? ??? \x7f&#9;\""));
  EXPECT_THAT(xml, HasSubstr("tests=\"1\" failures=\"0\" errors=\"1\""));
}

}  // namespace
}  // namespace understudy
