// Iterations of a training job as traces: who sends what to whom, and that a replay ends when the
// iterations' own graph does.
#include "ctrl/traces/training_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "collective_model/traces/replay.h"

namespace understudy {
namespace {

using Kind = TraceNodeKind;

Transformer model() {
  Transformer model;
  model.layers = 4;
  model.hidden = 64;
  model.heads = model.kv_groups = 4;
  model.feed_forward = 256;
  model.vocabulary = 512;
  model.sequence = 16;
  return model;
}

Parallel parallel() {
  Parallel parallel;
  parallel.tp = 2;
  parallel.pp = 2;
  parallel.dp = 2;
  parallel.zero = 1;
  parallel.global_batch = 8;
  return parallel;
}

IterationGraph graph_of(const Parallel& parallel, Duration optimizer = Duration::us(5)) {
  IterationTimes times;
  for (uint32_t stage = 0; stage < parallel.pp; ++stage) {
    StageComputing made;
    const ChunkTimes chunk{Duration::ps(10'000'400), Duration::ps(12'000'600), Duration::us(8)};
    made.chunks.assign(parallel.chunks, chunk);
    made.tensor.assign(parallel.chunks, {Duration::us(1), Duration::us(2), Duration::us(2)});
    made.optimizer = optimizer;
    times.stages.push_back(made);
  }
  return in_whole_ns(iteration_graph(model(), parallel, times, 1));
}

std::vector<TraceNode> of_kind(const TraceGraph& graph, Kind kind) {
  std::vector<TraceNode> out;
  for (const TraceNode& node : graph.nodes()) {
    if (node.kind == kind) out.push_back(node);
  }
  return out;
}

TEST(TrainingTrace, RanksAreNumberedAsTheJobDoes) {
  const auto job = training_trace(graph_of(parallel()), parallel(), TrainingRanks::kGpus);
  ASSERT_TRUE(job) << job.error().text;
  ASSERT_EQ(job->ranks.size(), 8u);
  // Tensor rank 1 of replica 1 of the first stage is 3, and 7 of the second one.
  for (const TraceNode& send : of_kind(*job->ranks[3], Kind::kSend)) {
    EXPECT_EQ(send.source, 3u);
    EXPECT_EQ(send.destination, 7u);
    EXPECT_EQ(send.bytes, 2u * 16 * 64);
  }
  EXPECT_EQ(of_kind(*job->ranks[3], Kind::kSend).size(), 4u);
  EXPECT_EQ(of_kind(*job->ranks[3], Kind::kReceive).size(), 4u);
  const std::map<uint32_t, std::vector<uint32_t>> groups = {
      {1, {0, 2}}, {2, {1, 3}}, {3, {4, 6}}, {4, {5, 7}},   // replicas
      {5, {0, 4}}, {6, {1, 5}}, {7, {2, 6}}, {8, {3, 7}}};  // the tied embedding
  EXPECT_EQ(job->groups, groups);
  std::set<std::string> of_rank;
  for (const TraceNode& node : of_kind(*job->ranks[3], Kind::kCollective)) {
    of_rank.insert(node.name + " " + node.group);
  }
  EXPECT_EQ(of_rank,
            (std::set<std::string>{"weights 2", "gradients 2", "tied embedding 8", "norm "}));
}

TEST(TrainingTrace, GroupsOfTensorParallelismMayBeOneRank) {
  const auto job = training_trace(graph_of(parallel()), parallel(), TrainingRanks::kGroups);
  ASSERT_TRUE(job) << job.error().text;
  ASSERT_EQ(job->ranks.size(), 4u);
  EXPECT_EQ(of_kind(*job->ranks[1], Kind::kSend).front().destination, 3u);
  const std::map<uint32_t, std::vector<uint32_t>> groups = {
      {1, {0, 1}}, {2, {2, 3}}, {3, {0, 2}}, {4, {1, 3}}};
  EXPECT_EQ(job->groups, groups);
}

TEST(TrainingTrace, AGatherHasWhatARankContributes) {
  const auto job = training_trace(graph_of(parallel()), parallel(), TrainingRanks::kGpus);
  const auto all = of_kind(*job->ranks[0], Kind::kCollective);
  const auto find = [&](const std::string& name) {
    return *std::ranges::find(all, name, &TraceNode::name);
  };
  const TraceNode weights = find("weights"), gradients = find("gradients");
  EXPECT_EQ(weights.collective, TraceCollective::kAllGather);
  EXPECT_EQ(gradients.collective, TraceCollective::kReduceScatter);
  // Values of 2 bytes, of which each of two replicas gives half; gradients have 4.
  EXPECT_EQ(*weights.bytes * 2 * 2, *gradients.bytes);
}

TEST(TrainingTrace, TimesAreWholeNanosecondsWithTensorsPart) {
  const auto job = training_trace(graph_of(parallel()), parallel(), TrainingRanks::kGpus);
  const auto computed = of_kind(*job->ranks[0], Kind::kCompute);
  EXPECT_EQ(computed.front().name, "forward of micro-batch 0");
  EXPECT_EQ(computed.front().duration_ns(), 11'000u);
  const auto backward = std::ranges::find(computed, "backward of micro-batch 0", &TraceNode::name);
  EXPECT_EQ(backward->duration_ns(), 24'001u);
  EXPECT_EQ(computed.back().name, "optimizer");
}

TEST(TrainingTrace, WhatTakesNoTimeIsLeftOut) {
  Parallel alone;
  alone.global_batch = 2;
  const auto job = training_trace(graph_of(alone, Duration()), alone, TrainingRanks::kGpus);
  ASSERT_TRUE(job) << job.error().text;
  // Two micro-batches forward and backward: no start, no norm of one rank, no optimizer.
  ASSERT_EQ(job->ranks.size(), 1u);
  EXPECT_EQ(job->ranks[0]->nodes().size(), 4u);
  EXPECT_EQ(job->ranks[0]->data().parents, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(job->ranks[0]->dangling().empty());
  EXPECT_TRUE(job->groups.empty());
}

TEST(TrainingTrace, MessagesHaveTagsOfTheirOwn) {
  Parallel wrapped;
  wrapped.pp = 2;
  wrapped.chunks = 2;
  wrapped.schedule = PipelineSchedule::kInterleaved;
  wrapped.global_batch = 4;
  // From stage 0 to stage 1 go forwards, and the backwards of the second chunk.
  const auto job = training_trace(graph_of(wrapped), wrapped, TrainingRanks::kGpus);
  ASSERT_TRUE(job) << job.error().text;
  std::set<uint32_t> tags;
  const auto sends = of_kind(*job->ranks[0], Kind::kSend);
  for (const TraceNode& send : sends) tags.insert(send.tag);
  EXPECT_EQ(sends.size(), 12u);
  EXPECT_EQ(tags.size(), sends.size());
}

TEST(TrainingTrace, AReplayTakesThePipelinesTime) {
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::k1f1b}) {
    Parallel stages;
    stages.pp = 4;
    stages.schedule = schedule;
    stages.global_batch = 8;
    const auto job = training_trace(graph_of(stages), stages, TrainingRanks::kGpus);
    ReplaySettings settings;
    // Bytes take no time: operations take 10 ns, and 10 ns a step.
    settings.network = *TraceNetwork::make({{TraceDimension::Kind::kFullyConnected, 4, 1e6, 0}},
                                           TraceCongestion::kUnaware);
    settings.system.splits = 1;
    settings.system.memory_gb_s = 1e6;
    settings.system.algorithms[TraceCollective::kAllReduce] = {"ring"};
    const auto ranks = replay(*job, settings);
    ASSERT_TRUE(ranks) << ranks.error().text;
    Time finish;
    for (const RankReplay& rank : *ranks) finish = std::max(finish, rank.finish);
    // (m + p - 1)(F + B), an embedding of 2 ranks (2 * 1 steps), the norm, the optimizer.
    const Duration embedding = Duration::ns(30), norm = Duration::ns(70);
    EXPECT_EQ(finish - Time::zero(),
              Duration::ns(35'001) * 11 + embedding + norm + Duration::us(5));
  }
}

TEST(TrainingTrace, ALoneOperationIsNothingElse) {
  TrainingFamily messages{TrainingFamily::Kind::kMessages, 1, 0, 2};
  TrainingFamily data{TrainingFamily::Kind::kData, 1, 1, 2};
  messages.operations = {{TrainingTransfer::kSend, 100}};
  data.operations = {{TrainingTransfer::kAllReduce, 100}};
  const std::vector<TrainingFamily> families = {messages, data};
  const TraceJob job =
      lone_operation(parallel(), TrainingRanks::kGpus, families, 0, messages.operations.front());
  ASSERT_EQ(job.ranks.size(), 8u);
  EXPECT_EQ(job.ranks[6]->nodes().front().kind, Kind::kSend);
  EXPECT_EQ(job.ranks[6]->nodes().front().destination, 2u);
  EXPECT_EQ(job.ranks[2]->nodes().front().kind, Kind::kReceive);
  const TraceJob reduced =
      lone_operation(parallel(), TrainingRanks::kGpus, families, 1, data.operations.front());
  EXPECT_EQ(reduced.ranks[0]->nodes().front().kind, Kind::kCompute);
  EXPECT_EQ(reduced.ranks[5]->nodes().front().group, "2");
  const std::map<uint32_t, std::vector<uint32_t>> groups = {{1, {4, 6}}, {2, {5, 7}}};
  EXPECT_EQ(reduced.groups, groups);
}

TEST(TrainingTrace, PartsOfReplicasAreGroups) {
  // Four replicas: experts over two that follow each other, gradients of experts over two that do not.
  Parallel parts;
  parts.dp = 4;
  parts.ep = 2;
  TrainingFamily experts{TrainingFamily::Kind::kExperts, 0, 0, 2};
  TrainingFamily gradients{TrainingFamily::Kind::kExpertData, 0, 0, 2, 2};
  experts.operations = {{TrainingTransfer::kAllToAll, 80}};
  gradients.operations = {{TrainingTransfer::kAllGather, 80}};
  const std::vector<TrainingFamily> families = {experts, gradients};
  const TraceJob tokens =
      lone_operation(parts, TrainingRanks::kGpus, families, 0, experts.operations.front());
  const std::map<uint32_t, std::vector<uint32_t>> groups = {
      {1, {0, 1}}, {2, {2, 3}}, {3, {0, 2}}, {4, {1, 3}}};
  EXPECT_EQ(tokens.groups, groups);
  EXPECT_EQ(tokens.ranks[3]->nodes().front().group, "2");
  EXPECT_EQ(tokens.ranks[3]->nodes().front().bytes, 80u);
  const TraceJob weights =
      lone_operation(parts, TrainingRanks::kGpus, families, 1, gradients.operations.front());
  EXPECT_EQ(weights.ranks[3]->nodes().front().group, "4");
  EXPECT_EQ(weights.ranks[3]->nodes().front().bytes, 40u);
}

}  // namespace
}  // namespace understudy
