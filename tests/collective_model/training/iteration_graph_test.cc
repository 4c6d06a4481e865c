// Graphs of iterations, where operations take given times: pipelines as time_pipeline() has them, and how
// gradients, weights, slow replicas and the norm come into it.
#include "collective_model/training/iteration_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "collective_model/training/critical_path.h"
#include "collective_model/training/iteration_result.h"
#include "collective_model/workload/closed_operations.h"

namespace understudy {
namespace {

using Kind = TrainingFamily::Kind;
using enum PipelineSchedule;

Transformer small_model(uint32_t layers) {
  Transformer model;
  model.layers = layers;
  model.hidden = 64;
  model.heads = model.kv_groups = 4;
  model.feed_forward = 256;
  model.vocabulary = 512;
  model.sequence = 16;
  return model;
}

IterationTimes times_of(const Parallel& parallel, const ChunkTimes& times,
                        Duration optimizer = {}) {
  IterationTimes out;
  for (uint32_t stage = 0; stage < parallel.pp; ++stage) {
    StageComputing made;
    made.chunks.assign(parallel.chunks, times);
    made.tensor.assign(parallel.chunks, {});
    made.optimizer = optimizer;
    out.stages.push_back(made);
  }
  return out;
}

/// A graph with closed operations.
struct ClosedRun {
  using Times = std::function<ClosedTime(const TrainingFamily&, size_t operation)>;
  ClosedRun(const Transformer& model, const Parallel& parallel, const IterationTimes& times,
            const Times& took, uint32_t iterations = 1)
      : graph(iteration_graph(model, parallel, times, iterations)) {
    std::vector<CommunicatorFamily> families = graph.communicators;
    std::vector<CommunicatorCarrier*> carriers;
    uint32_t first = 0;
    for (size_t f = 0; f < families.size(); ++f) {
      const TrainingFamily& family = graph.families[f];
      auto known = std::make_shared<std::vector<ClosedTime>>();
      for (size_t i = 0; i < family.operations.size(); ++i) known->push_back(took(family, i));
      families[f].first = first;
      families[f].width = 1;
      uint32_t count = family.pairs() ? parallel.replicas() : 1;
      if (family.of_replicas()) count = parallel.replicas() / family.members;
      for (uint32_t i = 0; i < count; ++i, ++first) {
        closed.add(family.members, family.kind == Kind::kMessages, known);
      }
      carriers.push_back(&closed);
    }
    workload = std::make_unique<WorkloadCommunicators>(graph.workload, families, carriers);
    closed.listen(*workload);
    workload->begin();
  }
  std::vector<IterationResult> results() const { return iteration_results(graph, *workload); }

  IterationGraph graph;
  ClosedOperations closed;
  std::unique_ptr<WorkloadCommunicators> workload;
};

ClosedTime nothing(const TrainingFamily&, size_t) { return {}; }

/// Messages that are on their way for so long.
ClosedRun::Times messages(Duration way) {
  return [way](const TrainingFamily& family, size_t) {
    return ClosedTime{Duration(), family.kind == Kind::kMessages ? way : Duration()};
  };
}

TEST(IterationGraph, WithoutReplicasIsThePipelineAlone) {
  for (const auto& [schedule, chunks] : {std::pair{kGpipe, 1u},
                                         {k1f1b, 1u},
                                         {kInterleaved, 2u},
                                         {kInterleaved, 3u},
                                         {kZeroBubbleH1, 1u}}) {
    for (const uint32_t pp : {1u, 2u, 3u, 4u, 6u}) {
      for (const uint32_t m : {pp, 2 * pp, 5 * pp}) {
        for (const int64_t way : {0, 1, 7, 40}) {
          Parallel parallel{.pp = pp, .chunks = chunks, .global_batch = m, .schedule = schedule};
          const ChunkTimes times{Duration::us(12), Duration::us(17), Duration::us(9)};
          SCOPED_TRACE(::testing::Message() << name_of(kPipelineScheduleNames, schedule) << ", "
                                            << pp << " stages, " << chunks << " chunks, " << m
                                            << " micro-batches, messages of " << way << " us");
          ASSERT_TRUE(check_pipeline(pipeline_of(parallel)));
          const ClosedRun run(small_model(pp * chunks), parallel,
                              times_of(parallel, times, Duration::us(3)),
                              messages(Duration::us(way)));
          ASSERT_TRUE(run.workload->finished());
          const auto expected =
              time_pipeline(pipeline_of(parallel), {{times}, {Duration::us(way)}});
          ASSERT_TRUE(expected);
          const auto results = run.results();
          ASSERT_EQ(results.size(), 1U);
          EXPECT_EQ(results[0].took(), expected->makespan + Duration::us(3));
          for (const StageResult& stage : results[0].stages) {
            EXPECT_EQ(stage.mean.all(), results[0].took());
            EXPECT_EQ(stage.mean.compute,
                      (times.forward + times.backward + times.weight_gradient) * (m * chunks));
            EXPECT_EQ(stage.mean.optimizer, Duration::us(3));
          }
        }
      }
    }
  }
}

/// When the last of the chunk's buckets is reduced, each in `each`, from the begin of a backward of `time`.
Duration reduced(const std::vector<GradientBucket>& buckets, Duration time, Duration each) {
  Duration done;
  for (const GradientBucket& bucket : buckets) {
    const auto ready = static_cast<double>(time.ps()) * bucket.ready;
    done = std::max(done, Duration::ps(std::llround(ready))) + each;
  }
  return done;
}

TEST(IterationGraph, GradientsHideBehindTheLastBackwardOnly) {
  const Transformer model = small_model(8);
  Parallel parallel{.dp = 4, .global_batch = 8};
  const ChunkTimes times{Duration::us(80), Duration::us(160), {}};
  const Duration before = Duration::us(2 * 80 + 160);
  for (const int64_t each : {1, 10, 20, 80}) {
    const auto took = [&](const TrainingFamily& family, size_t) {
      return ClosedTime{{}, family.kind == Kind::kData ? Duration::us(each) : Duration()};
    };
    parallel.overlap_gradients = true;
    parallel.bucket = layer_parameters(model).all();
    const ClosedRun overlapped(model, parallel, times_of(parallel, times), took);
    const auto buckets = chunk_buckets(model, parallel, 0, 0, 0);
    ASSERT_EQ(overlapped.graph.families.front().operations.size(), buckets.size());
    EXPECT_EQ(buckets.size(), 9U);  // the embedding fills none
    const Duration done = reduced(buckets, times.backward, Duration::us(each));
    const IterationResult result = overlapped.results().front();
    EXPECT_EQ(result.took(), before + done);
    EXPECT_EQ(result.mean.data, done - times.backward);
    parallel.overlap_gradients = false;
    const ClosedRun behind(model, parallel, times_of(parallel, times), took);
    EXPECT_EQ(behind.results().front().took(), before + times.backward + Duration::us(each) * 9);
    parallel.bucket = 0;
    const ClosedRun together(model, parallel, times_of(parallel, times), took);
    EXPECT_EQ(together.results().front().took(), before + times.backward + Duration::us(each));
  }
}

TEST(IterationGraph, ZeroGathersWeightsBeforeTheFirstForward) {
  const Transformer model = small_model(8);
  Parallel parallel{.dp = 4, .global_batch = 4, .zero = 1};
  parallel.bucket = layer_parameters(model).all();
  const ChunkTimes times{Duration::us(80), Duration::us(160), {}};
  const auto took = [&](const TrainingFamily& family, size_t i) {
    const bool gathers =
        family.kind == Kind::kData && family.operations[i].transfer == TrainingTransfer::kAllGather;
    return ClosedTime{{}, gathers ? Duration::us(5) : Duration()};
  };
  const ClosedRun before(model, parallel, times_of(parallel, times), took);
  EXPECT_EQ(before.results().front().took(), Duration::us(240 + 9 * 5));
  // The first layer waits for the embedding and itself; the others for no more, as they take 10.
  parallel.overlap_weights = true;
  const ClosedRun beside(model, parallel, times_of(parallel, times), took);
  EXPECT_EQ(beside.results().front().took(), Duration::us(240 + 2 * 5));
  uint64_t gathered = 0, reduced = 0;
  for (const FamilyOperation& operation : beside.graph.families.front().operations) {
    const bool gathers = operation.transfer == TrainingTransfer::kAllGather;
    (gathers ? gathered : reduced) += operation.bytes;
  }
  // In equal parts of whole values for 4 replicas.
  const uint64_t held = rank_parameters(model, parallel, 0);
  EXPECT_GE(gathered, 2 * held);
  EXPECT_LE(gathered, 2 * (held + 9 * 3));
  EXPECT_EQ(reduced, 2 * gathered);
}

/// Three transfers of all weights and gradients for each micro-batch, as stage_messages() has them.
TEST(IterationGraph, ZeroThreeGathersLayersForEachPass) {
  const Transformer model = small_model(8);
  const Parallel parallel{.dp = 4, .global_batch = 8, .zero = 3};
  const ChunkTimes times{Duration::us(80), Duration::us(160), {}};
  const auto each = [&](Duration time) {
    return [=](const TrainingFamily& family, size_t) {
      return ClosedTime{{}, family.kind == Kind::kData ? time : Duration()};
    };
  };
  const ClosedRun run(model, parallel, times_of(parallel, times), each(Duration::us(1)));
  // An embedding, 8 layers, a norm: 10 units.
  EXPECT_EQ(run.graph.families.front().operations.size(), 2U * 10 * 3);
  // Of 10 us a forward and 20 a backward: what is gathered while a layer is computed is hidden. Seen are
  // the embedding's and the first layer's before each first forward, and the last gradients.
  const IterationResult result = run.results().front();
  EXPECT_GE(result.took(), Duration::us(2 * 240 + 1));
  EXPECT_LE(result.took(), Duration::us(2 * (240 + 6)));
  // Where they take longer than computing, they are what takes time: 60 of them, one after another.
  const ClosedRun slow(model, parallel, times_of(parallel, times), each(Duration::us(100)));
  EXPECT_GE(slow.results().front().took(), Duration::us(60 * 100));
  EXPECT_LE(slow.results().front().took(), Duration::us(60 * 100 + 2 * 60));
}

/// With ZeRO's stage 2 every micro-batch's gradients are reduced.
TEST(IterationGraph, ZeroTwoReducesEachMicroBatch) {
  const Transformer model = small_model(8);
  Parallel parallel{.dp = 4, .global_batch = 12, .zero = 2};
  const ChunkTimes times{Duration::us(80), Duration::us(160), {}};
  for (const bool overlap : {true, false}) {
    parallel.overlap_gradients = overlap;
    const ClosedRun run(model, parallel, times_of(parallel, times), nothing);
    const auto& operations = run.graph.families.front().operations;
    EXPECT_EQ(std::ranges::count(operations, TrainingTransfer::kReduceScatter,
                                 &FamilyOperation::transfer),
              3);
    EXPECT_EQ(
        std::ranges::count(operations, TrainingTransfer::kAllGather, &FamilyOperation::transfer),
        1);
  }
}

Transformer expert_model(uint32_t layers, uint32_t dense) {
  Transformer model = small_model(layers);
  model.experts = 8;
  model.top_k = 2;
  model.expert_feed_forward = 128;
  model.dense_layers = dense;
  return model;
}

const TrainingFamily& family_of(const IterationGraph& graph, Kind kind) {
  return *std::ranges::find(graph.families, kind, &TrainingFamily::kind);
}

/// Dispatch and combine of each layer and micro-batch, forward and backward: all are seen.
TEST(IterationGraph, TokensOfExpertsAreWaitedFor) {
  const ChunkTimes times{Duration::us(80), Duration::us(160), {}};
  for (const uint32_t dense : {0U, 3U, 8U}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
      const Transformer model = expert_model(8, dense);
      const Parallel parallel{.dp = 8, .ep = 4, .global_batch = 16, .recompute = recompute};
      ASSERT_TRUE(misfits(model, parallel).empty());
      const auto took = [](const TrainingFamily& family, size_t) {
        return ClosedTime{{}, family.kind == Kind::kExperts ? Duration::us(3) : Duration()};
      };
      const ClosedRun run(model, parallel, times_of(parallel, times), took);
      const int64_t each = recompute == Recompute::kFull ? 6 : 4;
      const int64_t operations = each * (8 - dense) * 2;
      const IterationResult result = run.results().front();
      EXPECT_EQ(result.took(), Duration::us(2 * 240 + 3 * operations));
      EXPECT_EQ(result.mean.experts, Duration::us(3 * operations));
      EXPECT_EQ(result.mean.compute, Duration::us(2 * 240));
      EXPECT_EQ(result.mean.slowest, Duration());
      if (operations == 0) continue;
      const TrainingFamily& family = family_of(run.graph, Kind::kExperts);
      EXPECT_EQ(family.operations.size(), static_cast<size_t>(operations));
      EXPECT_EQ(family.members, 4U);
      EXPECT_EQ(family.operations.front(),
                (FamilyOperation{TrainingTransfer::kAllToAll, 2 * 2 * 16 * 64}));
      const auto critical = critical_path(run.graph, *run.workload);
      Duration seen;
      for (const CriticalStretch& stretch : critical) {
        if (stretch.what == CriticalStretch::What::kExperts) seen += stretch.length;
      }
      EXPECT_EQ(seen, Duration::us(3 * operations));
    }
  }
}

/// Experts' gradients are operations of the replicas that have the same ones; bytes as stage_messages() has them.
TEST(IterationGraph, ExpertsAreReducedOverFewerReplicas) {
  const Transformer model = expert_model(8, 0);
  for (const uint32_t zero : {0U, 1U, 2U, 3U}) {
    Parallel parallel{.dp = 8, .ep = 4, .global_batch = 16, .zero = zero};
    parallel.bucket = 20'000;
    const ClosedRun run(model, parallel,
                        times_of(parallel, {Duration::us(80), Duration::us(160), {}}), nothing);
    ASSERT_TRUE(run.workload->finished());
    const TrainingFamily& family = family_of(run.graph, Kind::kExpertData);
    EXPECT_EQ(family.members, 2U);
    EXPECT_EQ(family.stride, 4U);
    EXPECT_EQ(family.replica(3, 1), 7U);
    double listed = 0, made = 0;
    for (const MessagePhase& phase : stage_messages(model, parallel, 0)) {
      for (const TrainingMessage& m : phase.messages) {
        if (m.group != TrainingGroup::kExpertData) continue;
        listed += m.bytes * static_cast<double>(m.count * phase.times);
      }
    }
    for (const FamilyOperation& operation : family.operations) {
      made += static_cast<double>(operation.bytes);
    }
    EXPECT_EQ(made, listed) << zero;
  }
}

/// As long as the other parts of scores take longer, nothing is seen of the ring.
TEST(IterationGraph, KeysGoBesideTheScores) {
  const Transformer model = small_model(4);
  const Parallel parallel{.dp = 2, .cp = 4, .global_batch = 4};
  const ChunkTimes times{Duration::us(400), Duration::us(800), {}};
  const LayerParts parts = layer_parts(model, LayerKind::kDense);
  const double beside = (parts.scores - parts.keys) * 100 * 3 / 4;  // us of a layer, forward
  for (const double ring : {0.5, 0.99, 1.5, 4.}) {
    const auto took = [&](const TrainingFamily& family, size_t i) {
      if (family.kind != Kind::kContext) return ClosedTime{};
      const double all = family.operations[i].bytes == 2 * family.operations.front().bytes ? 2 : 1;
      return ClosedTime{{}, Duration::ps(std::llround(ring * all * beside * 1e6))};
    };
    const ClosedRun run(model, parallel, times_of(parallel, times), took);
    const IterationResult result = run.results().front();
    const TrainingFamily& family = family_of(run.graph, Kind::kContext);
    EXPECT_EQ(family.operations.size(), 2U * 4 * 2);
    EXPECT_EQ(family.operations.front(),
              (FamilyOperation{TrainingTransfer::kAllGather, 2 * 2 * 16 * 64}));
    const double seen = std::max(0., ring - 1) * beside * 4 * 2 * 3;
    EXPECT_NEAR(result.mean.context.seconds() * 1e6, seen, 1e-3) << ring;
    EXPECT_NEAR(result.took().seconds() * 1e6, 2 * 1200 + seen, 1e-3);
    // Gradients of all eight.
    EXPECT_EQ(run.graph.families.front().members, 8U);
  }
}

TEST(IterationGraph, EverybodyWaitsForTheSlowest) {
  Parallel parallel{.pp = 2, .dp = 3, .global_batch = 12};
  IterationTimes times = times_of(parallel, {Duration::us(10), Duration::us(20), {}});
  const ClosedRun even(small_model(2), parallel, times, nothing);
  times.slower = {{1, 1, 1}, {1, 1, 1.5}};
  const ClosedRun run(small_model(2), parallel, times, nothing, 2);
  const auto results = run.results();
  ASSERT_EQ(results.size(), 2U);
  // 4 micro-batches of 1F1B on two stages, of which one takes half as long again.
  EXPECT_EQ(even.results().front().took(), Duration::us(150));
  EXPECT_EQ(results[0].took(), Duration::us(10 + 4 * 45 + 20));
  EXPECT_EQ(results[1].took(), results[0].took());
  EXPECT_EQ(results[1].begin, results[0].end);
  EXPECT_EQ(results[0].stages[1].slowest, 2U);
  const auto critical = critical_path(run.graph, *run.workload);
  ASSERT_FALSE(critical.empty());
  EXPECT_EQ(critical[0].what, CriticalStretch::What::kCompute);
  EXPECT_EQ(std::pair(critical[0].stage, critical[0].replica), std::pair(1U, 2U));
  EXPECT_EQ(critical[0].length, Duration::us(180));
  EXPECT_EQ(results[0].stages[1].longest, Duration::us(180));
  EXPECT_GT(results[0].stages[0].mean.slowest, Duration());
  for (const StageResult& stage : results[0].stages) {
    EXPECT_NEAR(static_cast<double>(stage.mean.all().ps()),
                static_cast<double>(results[0].took().ps()), 10);
  }
}

/// Sends that a stage waits for, and receives that it takes only when it would work on them.
TEST(IterationGraph, WithoutOverlapMessagesAreSeen) {
  Parallel parallel{.pp = 4, .global_batch = 16};
  const ChunkTimes times{Duration::us(10), Duration::us(20), {}};
  const auto took = [](const TrainingFamily& family, size_t) {
    return ClosedTime{family.kind == Kind::kMessages ? Duration::us(2) : Duration(), {}};
  };
  const ClosedRun overlapped(small_model(4), parallel, times_of(parallel, times), took);
  parallel.overlap_pipeline = false;
  const ClosedRun waits(small_model(4), parallel, times_of(parallel, times), took);
  ASSERT_TRUE(waits.workload->finished());
  EXPECT_GT(waits.results().front().took(), overlapped.results().front().took());
  EXPECT_GT(waits.results().front().mean.pipeline, overlapped.results().front().mean.pipeline);
}

/// Whatever is drawn comes to its end, and every part of every iteration is accounted for.
TEST(IterationGraph, DrawnOnesEnd) {
  std::mt19937 random(7);
  const auto draw = [&](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random);
  };
  for (int i = 0; i < 300; ++i) {
    Parallel parallel;
    parallel.pp = draw(1, 5);
    parallel.dp = draw(1, 4);
    parallel.cp = uint32_t{1} << draw(0, 1);
    const PipelineSchedule all[] = {kGpipe, k1f1b, kInterleaved, kZeroBubbleH1};
    parallel.schedule = all[draw(0, 3)];
    parallel.chunks = parallel.schedule == kInterleaved ? draw(2, 3) : 1;
    parallel.global_batch = uint64_t{parallel.pp} * draw(1, 4) * parallel.dp;
    parallel.zero = draw(0, 3);
    parallel.overlap_gradients = draw(0, 1) == 1;
    parallel.overlap_weights = draw(0, 1) == 1;
    parallel.overlap_pipeline = draw(0, 1) == 1;
    const uint32_t layers = parallel.pp * parallel.chunks * draw(1, 3);
    Transformer model =
        draw(0, 1) == 0 ? small_model(layers) : expert_model(layers, draw(0, layers));
    const uint32_t replicas = parallel.replicas();
    if (model.experts > 0) parallel.ep = replicas % 4 == 0 ? 4 : replicas % 2 == 0 ? 2 : 1;
    if (draw(0, 2) == 0) parallel.recompute = Recompute::kFull;
    model.tied_embeddings = draw(0, 1) == 1;
    parallel.bucket = draw(1000, 200'000);
    IterationTimes times = times_of(
        parallel, {Duration::us(draw(1, 50)), Duration::us(draw(1, 50)), Duration::us(draw(0, 50))},
        Duration::us(draw(0, 9)));
    for (StageComputing& stage : times.stages) {
      for (ChunkTimes& chunk : stage.tensor) chunk = {Duration::us(draw(0, 9)), {}, {}};
    }
    times.slower.assign(parallel.pp, std::vector<double>(replicas, 1));
    times.slower[draw(0, parallel.pp - 1)][draw(0, replicas - 1)] = 1.5;
    SCOPED_TRACE(::testing::Message()
                 << "case " << i << ": " << name_of(kPipelineScheduleNames, parallel.schedule)
                 << ", " << parallel.pp << " stages, " << parallel.chunks << " chunks, " << replicas
                 << " replicas, EP " << parallel.ep << ", " << parallel.micro_batches()
                 << " micro-batches, overlap " << parallel.overlap_pipeline);
    const ClosedRun run(
        model, parallel, times,
        [&](const TrainingFamily&, size_t) {
          return ClosedTime{Duration::us(draw(0, 30)), Duration::us(draw(0, 5))};
        },
        draw(1, 3));
    ASSERT_TRUE(run.workload->finished());
    Duration critical;
    for (const CriticalStretch& stretch : critical_path(run.graph, *run.workload)) {
      critical += stretch.length;
    }
    EXPECT_EQ(critical, run.results().back().took());
    for (const IterationResult& result : run.results()) {
      EXPECT_GT(result.took(), Duration());
      for (const StageResult& stage : result.stages) {
        EXPECT_LE(stage.mean.all(), result.took());
        EXPECT_GE(stage.mean.bubble, Duration());
        EXPECT_GE(stage.mean.data, Duration());
        EXPECT_GE(stage.mean.experts, Duration());
        EXPECT_GE(stage.mean.context, Duration());
        EXPECT_GE(stage.mean.slowest, Duration());
      }
    }
  }
}

}  // namespace
}  // namespace understudy
