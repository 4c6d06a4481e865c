#include "ctrl/shards/collect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace understudy {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

class Collect : public ::testing::Test {
 protected:
  Collect() {
    for (const char* name : {"gpu", "w0", "w1"}) {
      NodeConfig node;
      node.name = name;
      node.index = static_cast<NodeId>(config.nodes.size());
      config.nodes.push_back(node);
    }
    JobConfig job;
    job.name = "j";
    job.ranks = {0, 2, 1};
    job.sizes = {4096, 8192};
    job.warmup = 1;
    job.iterations = 2;
    job.payload = PayloadMode::kExact;
    config.jobs.push_back(job);
    for (size_t i = 0; i < progress.results.size(); ++i) {
      CollectiveResult& r = progress.results[i];
      r.entry = Time::zero() + Duration::ms(static_cast<int64_t>(i));
      r.end = r.entry + Duration::us(10);
      r.lateness = Duration::ns(3);
      r.wrong_elements = i;
    }
  }
  JobReport job(uint32_t finished, Verified verified = Verified::kNo) {
    progress.finished = finished;
    std::vector<JobOperation> operations;
    for (const uint32_t size : {0u, 1u}) {
      operations.insert(operations.end(), {{size, 0, true}, {size, 0, false}, {size, 1, false}});
    }
    return job_report(config, 0, progress, operations, verified,
                      [](size_t i) { return Duration::us(static_cast<int64_t>(i)); });
  }

  Config config;
  CollectiveProgress progress{6};
};

TEST_F(Collect, OperationsBySizeAndTurn) {
  const JobReport report = job(5);
  EXPECT_EQ(report.ranks, (std::vector<std::string>{"gpu", "w1", "w0"}));
  EXPECT_EQ(report.payload, "exact");
  EXPECT_EQ(report.planned, 6u);
  ASSERT_EQ(report.collectives.size(), 5u);
  const CollectiveReport& warmup = report.collectives[3];
  EXPECT_TRUE(warmup.warmup);
  EXPECT_EQ(warmup.bytes, 8192u);
  EXPECT_EQ(warmup.iteration, 0u);
  const CollectiveReport& timed = report.collectives[2];
  EXPECT_FALSE(timed.warmup);
  EXPECT_EQ(timed.size_index, 0u);
  EXPECT_EQ(timed.iteration, 1u);
  EXPECT_EQ(timed.entry, Time::zero() + Duration::ms(2));
  EXPECT_EQ(timed.measured, Duration::us(10));
  EXPECT_EQ(timed.modelled, Duration::us(2));
  EXPECT_EQ(timed.lateness, Duration::ns(3));
  EXPECT_FALSE(timed.wrong_elements);
}

TEST_F(Collect, WrongElementsOnlyWhereVerified) {
  EXPECT_EQ(job(6, Verified::kYes).collectives[4].wrong_elements, 4u);
}

TEST_F(Collect, FailureAndViolations) {
  progress.failed = true;
  progress.violations = 3;
  EXPECT_TRUE(job(0).failed);
  EXPECT_EQ(job(0).violations, 3u);
}

TEST_F(Collect, NodesTimesGoToTimedOperations) {
  JobReport report = job(6);
  ASSERT_TRUE(add_node_result(report, config.jobs[0], {1, 8192, {700, 900}, 4}));
  EXPECT_FALSE(report.collectives[1].node_reported);
  EXPECT_FALSE(report.collectives[3].node_reported);
  EXPECT_EQ(report.collectives[4].node_reported, Duration::ns(700));
  EXPECT_EQ(report.collectives[5].node_reported, Duration::ns(900));
  ASSERT_EQ(report.node_checks.size(), 1u);
  EXPECT_EQ(report.node_checks[0].size_index, 1u);
  EXPECT_EQ(report.node_checks[0].wrong_elements, 4u);
  // A second real rank: the slower one counts.
  ASSERT_TRUE(add_node_result(report, config.jobs[0], {1, 8192, {800, 800}, {}}));
  EXPECT_EQ(report.collectives[4].node_reported, Duration::ns(800));
  EXPECT_EQ(report.collectives[5].node_reported, Duration::ns(900));
  EXPECT_TRUE(report.collectives[4].by_node.empty());
}

TEST_F(Collect, NodesTimesStandBesideOneAnother) {
  JobReport report = job(6);
  report.real_nodes = {"a", "b"};
  ASSERT_TRUE(add_node_result(report, config.jobs[0], {1, 8192, {800, 800}, {}}, 1));
  ASSERT_TRUE(add_node_result(report, config.jobs[0], {1, 8192, {700, 900}, {}}, 0));
  EXPECT_EQ(report.collectives[4].by_node,
            (std::vector<Duration>{Duration::ns(700), Duration::ns(800)}));
  EXPECT_EQ(report.collectives[5].node_reported, Duration::ns(900));
  EXPECT_TRUE(report.collectives[3].by_node.empty());  // a warm-up
}

TEST_F(Collect, NodesResultsThatDoNotFit) {
  JobReport report = job(6);
  const auto error = [&](const RingResultMessage& result) {
    const auto added = add_node_result(report, config.jobs[0], result);
    return added ? "" : added.error().text;
  };
  EXPECT_THAT(error({2, 8192, {1, 2}, {}}), HasSubstr("no such size"));
  EXPECT_THAT(error({0, 8192, {1, 2}, {}}), HasSubstr("no such size"));
  EXPECT_THAT(error({0, 4096, {1}, {}}), HasSubstr("1 times, but the job has 2 iterations"));
  EXPECT_TRUE(report.node_checks.empty());
  EXPECT_FALSE(report.collectives[1].node_reported);
}

TEST_F(Collect, PortCountersByNameAndLinksThatCarried) {
  NodeTable nodes;  // the shard's positions are not the configuration's
  NodeNic nic;
  nic.id = 2;
  nodes.add(nic);
  nic.id = 0;
  nodes.add(nic);
  ShardSnapshot snapshot;
  snapshot.up.resize(2);
  snapshot.down.resize(2);
  snapshot.up[1].packets = 4;
  snapshot.down[0].packets = 5;
  snapshot.down[0].wire_bytes = 50;
  snapshot.counters.rx_roce = 6;
  snapshot.counters.drop(Drop::kBadIcrc);
  snapshot.counters.rc[static_cast<size_t>(RcEvent::kPsnGap)] = 7;
  for (int i = 1; i <= 100; ++i) snapshot.counters.lateness.add(Duration::ns(i));
  snapshot.faults = {{9, 3, 1}};
  config.faults.resize(1);
  config.faults[0].name = "loss";
  PortCounters device;
  device.rx_missed = 8;
  PortConfig port;
  port.device = "net_null0";

  const PortReport report = port_report("p0", port, config, nodes, snapshot, device);
  EXPECT_EQ(report.node, "gpu");
  EXPECT_THAT(report.counters, Contains(Pair("rx_roce", 6)));
  EXPECT_EQ(report.drops.size(), static_cast<size_t>(Drop::kCount));
  EXPECT_THAT(report.drops, Contains(Pair("bad_icrc", 1)));
  EXPECT_EQ(report.rc_events.size(), static_cast<size_t>(RcEvent::kCount));
  EXPECT_THAT(report.rc_events, Contains(Pair(rc_event_name(RcEvent::kPsnGap), 7)));
  EXPECT_THAT(report.device_counters, Contains(Pair("rx_missed", 8)));
  EXPECT_EQ(report.lateness.frames, 100u);
  EXPECT_EQ(report.lateness.max, Duration::ns(100));
  EXPECT_GE(report.lateness.p50, Duration::ns(50));
  EXPECT_LT(report.lateness.p50, Duration::ns(54));
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_EQ(report.faults[0].name, "loss");
  EXPECT_EQ(report.faults[0].matched, 9u);
  EXPECT_EQ(report.faults[0].acted, 3u);
  EXPECT_EQ(report.faults[0].skipped, 1u);
  ASSERT_EQ(report.links.size(), 2u);
  EXPECT_EQ(report.links[0].node, "w1");
  EXPECT_FALSE(report.links[0].up);
  EXPECT_EQ(report.links[0].wire_bytes, 50u);
  EXPECT_EQ(report.links[1].node, "gpu");
  EXPECT_TRUE(report.links[1].up);
}

TEST(CollectLoop, GapsByTime) {
  WorkerStats stats;
  stats.loops = 9;
  stats.note_gap({Time::zero() + Duration::s(2), Duration::ms(5)});
  stats.note_gap({Time::zero() + Duration::s(1), Duration::ms(50)});
  const LoopReport report = loop_report(stats);
  EXPECT_EQ(report.loops, 9u);
  EXPECT_EQ(report.gaps, 2u);
  ASSERT_EQ(report.kept.size(), 2u);
  EXPECT_EQ(report.kept[0].length, Duration::ms(50));
  EXPECT_EQ(report.kept[1].from, Time::zero() + Duration::s(2));
}

}  // namespace
}  // namespace understudy
