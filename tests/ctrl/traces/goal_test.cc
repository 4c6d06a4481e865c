// GOAL schedules: both forms, beside LogGOPSim's own bytes; as traces; and traces cut into messages.
#include "ctrl/traces/goal/goal.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "collective_model/traces/replay.h"
#include "ctrl/traces/goal/goal_rings.h"
#include "ctrl/traces/trace_files.h"

namespace understudy {
namespace {

const std::string kExamples = UNDERSTUDY_TEST_DATA "/workloads/goal/";

GoalSchedule read(const std::string& text) {
  auto schedule = read_goal(text, "a.goal");
  EXPECT_TRUE(schedule) << schedule.error().text;
  return schedule ? *std::move(schedule) : GoalSchedule();
}

std::string error_of(const std::string& text) {
  const auto schedule = read_goal(text, "a.goal");
  return schedule ? "" : schedule.error().text;
}

std::string one_rank(const std::string& lines) { return "num_ranks 1\nrank 0 {\n" + lines + "}\n"; }

TEST(Goal, BothFormsAreLogGopSims) {
  const std::string text = *read_whole_file(kExamples + "example.goal"),
                    binary = *read_whole_file(kExamples + "example.bin");
  ASSERT_TRUE(looks_like_goal(text) && looks_like_goal(binary));
  const GoalSchedule schedule = read(text);
  EXPECT_EQ(goal_binary(schedule), binary);
  EXPECT_EQ(goal_binary(read(binary)), binary);
  EXPECT_EQ(goal_binary(read(goal_text(read(binary)))), binary);
  EXPECT_EQ(read(goal_text(schedule)).ranks[1], schedule.ranks[1]);
}

TEST(Goal, OperationsAndWhatTheyRequire) {
  const GoalSchedule schedule = read(R"(/* two
  ranks */ num_ranks 2
rank 1 { // in any order
b requires a
a: recv 10b from -1 tag -1 nic 3 cpu 2
b: calc 18446744073709551615 cpu 255
}
rank 0 {
send 1 b to 1
l1: send 2b to 1 tag 7
l1 irequires l1
})");
  using enum GoalOperation::Kind;
  const std::vector<GoalOperation> first = {{kSend, 1, 1, 0, 0, 0, ""},
                                            {kSend, 2, 1, 7, 0, 0, "l1"}},
                                   second = {{kReceive, 10, kAnyGoalPeer, kAnyGoalTag, 2, 3, "a"},
                                             {kCalculation, ~uint64_t{0}, 0, 0, 255, 0, "b"}};
  EXPECT_EQ(schedule.ranks[0].operations, first);
  EXPECT_EQ(schedule.ranks[1].operations, second);
  EXPECT_EQ(schedule.ranks[0].requirements, (std::vector<GoalRank::Requirement>{{1, 1, true}}));
  EXPECT_EQ(schedule.ranks[1].requirements, (std::vector<GoalRank::Requirement>{{1, 0, false}}));
}

TEST(Goal, WhatIsWrongInATextIsNamedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"num_ranks 0\n", "a.goal:1: there are no ranks"},
      {"\nnum_ranks x", "a.goal:2: found \"x\": expected the number of ranks"},
      {"num_ranks 9999\nrank 0 {\n}\n",
       "a.goal:1: num_ranks is 9999, and the file is shorter than that"},
      {"num_ranks 2\nrank 0 {\n}\n", "a.goal:4: rank 1 is missing"},
      {"num_ranks 1\nrank 1 {\n}\n", "a.goal:2: there is no rank 1: num_ranks is 1"},
      {"num_ranks 1\nrank 0 {\n}\nrank 0 {\n}\n", "a.goal:4: rank 0 stands here again"},
      {"num_ranks 1\nrank 0 {\n",
       "a.goal:3: found the end of the file: expected an operation, a label, or \"}\""},
      {one_rank("a: calc 1\na: calc 2\n"), "a.goal:4: the label a stands here again"},
      {one_rank("a: calc 1\na requires b\n"), "a.goal:4: rank 0 has no label b"},
      {one_rank("a: wait 1\n"), "a.goal:3: found \"wait\": expected send, recv or calc"},
      {one_rank("a calc 1\n"), "a.goal:3: found \"calc\": expected \":\", requires or irequires"},
      {one_rank("calc 1 tag 3\n"), "a.goal:3: found \"tag\": expected the end of the line"},
      {one_rank("calc 1; calc 2\n"), "a.goal:3: found \";\": expected the end of the line"},
      {one_rank("calc -1\n"), "a.goal:3: found \"-1\": expected nanoseconds"},
      {one_rank("calc 18446744073709551616\n"),
       "a.goal:3: 18446744073709551616 is too large for nanoseconds"},
      {one_rank("calc 1 cpu 256\n"), "a.goal:3: 256 is too large for a cpu (at most 255)"},
      {one_rank("send 1 to 0\n"), "a.goal:3: found \"to\": expected \"b\""},
      {one_rank("send 1b from 0\n"), "a.goal:3: found \"from\": expected \"to\""},
      {one_rank("send 1b to 1\n"), "a.goal:3: there is no rank 1: num_ranks is 1"},
      {one_rank("send 1b to -1\n"), "a.goal:3: found \"-1\": expected a rank"},
  };
  for (const auto& [text, error] : wrong) EXPECT_EQ(error_of(text), error) << text;
}

TEST(Goal, WhatIsWrongInABinaryIsNamedWithItsByte) {
  const std::string binary = *read_whole_file(kExamples + "example.bin");
  const auto changed = [&](size_t at, const std::string& bytes) {
    std::string text = binary;
    text.replace(at, bytes.size(), bytes);
    return error_of(text);
  };
  using namespace std::string_literals;
  EXPECT_EQ(changed(0, "\x26\x09"s),
            "a.goal: at byte 0: a run of LogGOPSim (--save-mem) has used this schedule up");
  EXPECT_EQ(changed(8, "\xff\xff"s), "a.goal: at byte 8: the file is too short for 65535 ranks");
  EXPECT_EQ(changed(8, "\0\0"s), "a.goal: at byte 8: there are no ranks");
  EXPECT_EQ(
      changed(14, "\x35"s),
      "a.goal: at byte 14: rank 0: its part is not behind the one before, or not in the file");
  EXPECT_EQ(changed(62, "\x44"s),
            "a.goal: at byte 62: rank 0: its part is too short for 68 operations, 2 of them free");
  // Of operation 0 of rank 0, which begins at byte 78: what it requires, its kind; the second one's peer.
  EXPECT_EQ(
      changed(78, "\x01"s),
      "a.goal: at byte 78: rank 0, operation 0: it is said to require 1 operations, and 0 say so");
  EXPECT_EQ(changed(82, "\x07"s), "a.goal: at byte 82: rank 0, operation 0: its kind is 7");
  EXPECT_EQ(changed(122, "\x09"s), "a.goal: at byte 122: rank 0, operation 1: there is no rank 9");
  EXPECT_EQ(
      changed(101, "\x09"s),
      "a.goal: at byte 101: rank 0, operation 0: those that require it are not in the appendix");
  EXPECT_EQ(
      changed(234, "\x09"s),
      "a.goal: at byte 234: rank 0, operation 0: there is no operation 9 that could require it");
  for (size_t size = 8; size < binary.size(); ++size) {
    EXPECT_TRUE(error_of(binary.substr(0, size)).starts_with("a.goal: at byte ")) << size;
  }
}

TEST(Goal, PeerAndTagOfACalculationSayNothing) {
  std::string binary = *read_whole_file(kExamples + "example.bin");
  binary[83] = 7;  // peer of operation 0 of rank 0
  binary[95] = 3;  // its tag
  EXPECT_EQ(goal_binary(read(binary)), *read_whole_file(kExamples + "example.bin"));
}

TEST(Goal, TracesOfASchedule) {
  const GoalSchedule schedule = read(R"(num_ranks 2
rank 0 {
a: calc 1500 cpu 1
b: send 10b to 1 tag 3 nic 1
b requires a
}
rank 1 {
c: recv 10b from 0 tag 3
})");
  const auto job = goal_traces(schedule);
  ASSERT_TRUE(job) << job.error().text;
  const TraceGraph& first = *job->ranks[0];
  EXPECT_EQ(first.nodes()[0].duration_ns(), 1500u);
  EXPECT_EQ(first.nodes()[0].name, "a");
  EXPECT_EQ(first.data().parents, (std::vector<uint32_t>{0}));
  EXPECT_EQ(first.nodes()[1].destination, 1u);
  EXPECT_EQ(job->ranks[1]->nodes()[0].source, 0u);
  ASSERT_EQ(job->notes.size(), 2u);
  EXPECT_TRUE(job->notes[0].starts_with("1 operations are on a cpu other than 0; "));
  EXPECT_TRUE(job->notes[1].starts_with("1 operations are on a nic other than 0; "));
}

TEST(Goal, WhatTracesDoNotKnowIsNamed) {
  const auto error = [](const std::string& lines) {
    return goal_traces(read(one_rank(lines))).error().text;
  };
  EXPECT_EQ(
      error("a: calc 1\nb: calc 2\nb irequires a\n"),
      "rank 0, operation 1 (b): \"irequires\" waits for the begin of an operation (0), which is "
      "not covered");
  EXPECT_EQ(error("recv 1b from -1 tag 3\n"),
            "rank 0, operation 0: a receive from any rank (-1) is not covered");
  EXPECT_EQ(error("send 1b to 0 tag -1\n"),
            "rank 0, operation 0: a message of any tag (-1) is not covered");
}

/// What each rank sends to whom, and whether the other one expects as much.
void expect_met(TraceCollective collective, uint64_t bytes, uint32_t ranks) {
  std::vector<std::vector<CutStep>> steps;
  for (uint32_t place = 0; place < ranks; ++place) {
    steps.push_back(cut_collective(collective, bytes, ranks, place));
  }
  for (uint32_t place = 0; place < ranks; ++place) {
    ASSERT_EQ(steps[place].size(), steps[0].size());
    for (size_t step = 0; step < steps[place].size(); ++step) {
      const CutStep& sent = steps[place][step];
      const CutStep& there = steps[sent.to][step];
      EXPECT_EQ(there.from, place);
      EXPECT_EQ(there.received, sent.sent);
    }
  }
}

TEST(Goal, StepsOfACollectiveMeet) {
  using enum TraceCollective;
  for (const auto collective : {kAllReduce, kAllGather, kReduceScatter, kAllToAll}) {
    for (const uint32_t ranks : {1u, 2u, 3u, 8u}) {
      for (const uint64_t bytes : {uint64_t{0}, uint64_t{5}, uint64_t{1000}}) {
        expect_met(collective, bytes, ranks);
      }
    }
  }
  const auto sent = [](TraceCollective collective, uint64_t bytes, uint32_t ranks) {
    uint64_t sum = 0;
    for (const CutStep& step : cut_collective(collective, bytes, ranks, 1)) sum += step.sent;
    return sum;
  };
  EXPECT_EQ(sent(kAllReduce, 4000, 4), 6000u);
  EXPECT_EQ(sent(kReduceScatter, 4000, 4), 3000u);
  EXPECT_EQ(sent(kAllToAll, 4000, 4), 3000u);
  EXPECT_EQ(sent(kAllGather, 1000, 4), 3000u);
  EXPECT_EQ(sent(kAllReduce, 0, 4), 6u);  // a byte each
}

TraceNodeParents node(uint64_t id, TraceNodeKind kind, std::vector<uint64_t> parents = {}) {
  TraceNodeParents made;
  made.node.id = id;
  made.node.kind = kind;
  made.data = std::move(parents);
  return made;
}

TraceNodeParents collective(uint64_t id, TraceCollective what, uint64_t bytes,
                            std::vector<uint64_t> parents = {}) {
  TraceNodeParents made = node(id, TraceNodeKind::kCollective, std::move(parents));
  made.node.collective = what;
  made.node.bytes = bytes;
  return made;
}

TraceJob job_of(std::vector<TraceNodeParents> nodes, uint32_t ranks) {
  TraceJob job;
  job.ranks.assign(ranks, std::make_shared<const TraceGraph>(*TraceGraph::make(std::move(nodes))));
  return job;
}

ReplaySettings settings(uint32_t ranks) {
  ReplaySettings made;
  made.network = *TraceNetwork::make({{TraceDimension::Kind::kRing, ranks, 50, 500}},
                                     TraceCongestion::kUnaware);
  return made;
}

TEST(Goal, ACutCollectiveTakesItsMessagesTime) {
  // Computing of 1 us, an all-reduce of four parts of 262,144 bytes, and computing of 2 us behind.
  TraceNodeParents before = node(0, TraceNodeKind::kCompute),
                   behind = node(2, TraceNodeKind::kCompute, {1});
  before.node.duration_us = 1;
  behind.node.duration_us = 2;
  const TraceJob job =
      job_of({before, collective(1, TraceCollective::kAllReduce, 1 << 20, {0}), behind}, 4);
  const auto schedule = goal_of(job);
  ASSERT_TRUE(schedule) << schedule.error().text;
  const auto again = goal_traces(*schedule);
  ASSERT_TRUE(again) << again.error().text;
  const auto ranks = replay(*again, settings(4));
  ASSERT_TRUE(ranks) << ranks.error().text;
  // 6 steps of trunc(500 + 262,144 / 53.6870912) ns.
  for (const RankReplay& rank : *ranks) {
    EXPECT_EQ(rank.finish - Time::zero(), Duration::ns(1000 + 6 * 5382 + 2000));
  }
}

TEST(Goal, GroupsMeetByTheirOrder) {
  TraceNodeParents own = collective(5, TraceCollective::kAllGather, 100);
  own.node.group = "1";
  TraceJob job = job_of({own, collective(3, TraceCollective::kAllReduce, 100)}, 2);
  TraceNodeParents other = own;
  other.node.group = "2";
  const TraceJob others = job_of({other, collective(4, TraceCollective::kAllReduce, 100)}, 2);
  job.ranks.insert(job.ranks.end(), others.ranks.begin(), others.ranks.end());
  job.groups = {{1, {1, 0}}, {2, {2, 3}}};
  const auto schedule = goal_of(job);
  ASSERT_TRUE(schedule) << schedule.error().text;
  // Who sends, who receives, the tag and the bytes: each message once on both sides.
  std::set<std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>> sent, received;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    for (const GoalOperation& operation : schedule->ranks[rank].operations) {
      if (operation.kind == GoalOperation::Kind::kSend) {
        sent.emplace(rank, operation.peer, operation.tag, operation.size);
      } else {
        received.emplace(operation.peer, rank, operation.tag, operation.size);
      }
    }
  }
  EXPECT_EQ(sent, received);
  EXPECT_EQ(sent.size(), 4u * (2 * 3 + 1));
}

TEST(Goal, WhatASchedulesDoesNotKnowIsNamed) {
  const auto error = [](const TraceJob& job) { return goal_of(job).error().text; };
  EXPECT_EQ(error(job_of({node(4, TraceNodeKind::kMemoryLoad)}, 1)),
            "rank 0, node 4: a node of kind memory load has no operation in a schedule");
  EXPECT_EQ(error(job_of({collective(1, TraceCollective::kBroadcast, 4)}, 2)),
            "rank 0, node 1: the collective broadcast is not cut into messages");
  TraceNodeParents grouped = collective(1, TraceCollective::kAllReduce, 4);
  grouped.node.group = "7";
  EXPECT_EQ(error(job_of({grouped}, 2)),
            "rank 0, node 1: group \"7\" is not given (--comm-groups)");
  EXPECT_EQ(error(job_of({node(1, TraceNodeKind::kCompute, {9})}, 1)),
            "rank 0, node 1: waits for node 9, which is not there");
  TraceJob uneven = job_of({collective(1, TraceCollective::kAllReduce, 4)}, 1);
  uneven.ranks.push_back(job_of({collective(1, TraceCollective::kAllReduce, 8)}, 1).ranks[0]);
  EXPECT_EQ(
      error(uneven),
      "rank 1, node 1: collective number 1 of group \"\" is of 4 bytes, all-reduce, on a rank "
      "before it");
  uneven.ranks[1] = job_of({node(1, TraceNodeKind::kCompute)}, 1).ranks[0];
  EXPECT_EQ(error(uneven), "group \"\": rank 1 has 0 collectives, others 1");
  TraceNodeParents send = node(1, TraceNodeKind::kSend), larger = node(2, TraceNodeKind::kSend);
  send.node.destination = larger.node.destination = 1;
  send.node.bytes = 4;
  larger.node.bytes = 8;
  EXPECT_EQ(
      error(job_of({send, larger}, 2)),
      "rank 0, node 2: messages of 4 and 8 bytes have one tag, by which alone a schedule tells "
      "them apart");
}

}  // namespace
}  // namespace understudy
