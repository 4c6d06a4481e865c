// The order of work of pipelines: small ones step by step, the peaks of section 2.2 of arXiv
// 2104.04473, which numbers are refused, and of drawn ones that every step is there once and none
// waits in a cycle.
#include "collective_model/training/pipeline.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>

namespace understudy {
namespace {

using Kind = PipelineStep::Kind;
using enum PipelineSchedule;

/// As "F0 B0 W0", of chunk 1 "F0b".
std::string written(const std::vector<PipelineStep>& steps) {
  std::string out;
  for (const PipelineStep& step : steps) {
    if (!out.empty()) out += ' ';
    out += "FBW"[static_cast<size_t>(step.kind)] + std::to_string(step.micro_batch);
    if (step.chunk > 0) out += static_cast<char>('a' + step.chunk);
  }
  return out;
}

TEST(PipelineSteps, GpipeGoesForwardBeforeItGoesBackward) {
  for (const uint32_t stage : {0u, 1u}) {
    EXPECT_EQ(written(pipeline_steps({kGpipe, 2, 3}, stage)), "F0 F1 F2 B0 B1 B2");
  }
}

TEST(PipelineSteps, OneForwardOneBackward) {
  const Pipeline pipeline = {k1f1b, 3, 4};
  EXPECT_EQ(written(pipeline_steps(pipeline, 0)), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(written(pipeline_steps(pipeline, 1)), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(written(pipeline_steps(pipeline, 2)), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(PipelineSteps, FewerMicroBatchesThanStagesAreAllWarmUp) {
  EXPECT_EQ(written(pipeline_steps({k1f1b, 8, 2}, 0)), "F0 F1 B0 B1");
  EXPECT_EQ(written(pipeline_steps({kZeroBubbleH1, 8, 2}, 0)), "F0 F1 B0 W0 B1 W1");
  EXPECT_EQ(written(pipeline_steps({kZeroBubbleH1, 8, 2}, 7)), "F0 B0 F1 B1 W0 W1");
}

TEST(PipelineSteps, InterleavedTakesGroupsOfMicroBatchesChunkByChunk) {
  const Pipeline pipeline = {kInterleaved, 2, 4, 2};
  EXPECT_EQ(written(pipeline_steps(pipeline, 0)),
            "F0 F1 F0b F1b F2 B0b F3 B1b F2b B0 F3b B1 B2b B3b B2 B3");
  EXPECT_EQ(written(pipeline_steps(pipeline, 1)),
            "F0 F1 F0b B0b F1b B1b F2 B0 F3 B1 F2b B2b F3b B3b B2 B3");
}

TEST(PipelineSteps, ZeroBubbleH1DelaysWeightGradientsByTheStage) {
  const Pipeline pipeline = {kZeroBubbleH1, 3, 4};
  EXPECT_EQ(written(pipeline_steps(pipeline, 0)), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(written(pipeline_steps(pipeline, 1)), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
  EXPECT_EQ(written(pipeline_steps(pipeline, 2)), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
}

TEST(PipelineInput, ComesFromTheNeighbourAndAroundBetweenChunks) {
  const Pipeline pipeline = {kInterleaved, 3, 3, 2};
  const auto input = [&](uint32_t stage, PipelineStep step) {
    const auto from = pipeline_input(pipeline, {stage, step});
    return from ? std::to_string(from->stage) + written({from->step}) : "nothing";
  };
  EXPECT_EQ(input(0, {Kind::kForward, 2, 0}), "nothing");
  EXPECT_EQ(input(1, {Kind::kForward, 2, 1}), "0F2b");
  EXPECT_EQ(input(0, {Kind::kForward, 2, 1}), "2F2");
  EXPECT_EQ(input(2, {Kind::kBackward, 1, 1}), "2F1b");
  EXPECT_EQ(input(2, {Kind::kBackward, 1, 0}), "0B1b");
  EXPECT_EQ(input(0, {Kind::kBackward, 1, 0}), "1B1");
  EXPECT_EQ(input(1, {Kind::kWeightGradient, 1, 0}), "1B1");
}

TEST(HeldActivations, AreThoseOfTheClosedForms) {
  for (uint32_t p = 2; p <= 8; ++p) {
    for (const uint32_t m : {1u, 2u, p - 1, p, p + 1, 3 * p, 5 * p + 2}) {
      for (uint32_t r = 0; r < p; ++r) {
        const auto held = [&](PipelineSchedule schedule, uint32_t micro_batches, uint32_t v) {
          return held_activations(pipeline_steps({schedule, p, micro_batches, v}, r));
        };
        SCOPED_TRACE(::testing::Message()
                     << p << " stages, " << m << " micro-batches, stage " << r);
        EXPECT_EQ(held(kGpipe, m, 1).until_backward, m);
        EXPECT_EQ(held(k1f1b, m, 1).until_backward, std::min(p - r, m));
        EXPECT_EQ(held(k1f1b, m, 1).until_weight_gradient, std::min(p - r, m));
        EXPECT_EQ(held(kZeroBubbleH1, m, 1).until_backward, std::min(p - r, m));
        // With the weight gradients that are left over, no stage holds more than the first of 1F1B.
        EXPECT_EQ(held(kZeroBubbleH1, m, 1).until_weight_gradient, std::min(p, m));
        for (uint32_t v = 2; v <= 4; ++v) {
          EXPECT_EQ(held(kInterleaved, m * p, v).until_backward,
                    std::min(m * p * v, 2 * (p - r - 1) + (v - 1) * p + 1));
        }
      }
    }
  }
}

/// Carries out orders, knowing of them only that piece chunk * stages + stage of the model follows
/// the one before it. False if stages wait for each other in a cycle.
bool comes_to_its_end(const Pipeline& pipeline) {
  std::vector<std::vector<PipelineStep>> orders;
  for (uint32_t s = 0; s < pipeline.stages; ++s) orders.push_back(pipeline_steps(pipeline, s));
  const uint32_t last_piece = pipeline.stages * pipeline.chunks - 1;
  std::map<std::tuple<Kind, uint32_t, uint32_t>, bool> done;  // kind, micro-batch, piece
  std::vector<size_t> next(pipeline.stages);
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t s = 0; s < pipeline.stages; ++s) {
      for (; next[s] < orders[s].size(); ++next[s], moved = true) {
        const auto [kind, mb, chunk] = orders[s][next[s]];
        const uint32_t piece = chunk * pipeline.stages + s;
        bool may = true;
        if (kind == Kind::kForward) may = piece == 0 || done[{kind, mb, piece - 1}];
        if (kind == Kind::kBackward) {
          may = done[{Kind::kForward, mb, piece}] &&
                (piece == last_piece || done[{kind, mb, piece + 1}]);
        }
        if (kind == Kind::kWeightGradient) may = done[{Kind::kBackward, mb, piece}];
        if (!may) break;
        bool& already = done[{kind, mb, piece}];
        EXPECT_FALSE(already) << "twice";
        already = true;
      }
    }
  }
  for (uint32_t s = 0; s < pipeline.stages; ++s) {
    if (next[s] < orders[s].size()) return false;
  }
  const size_t kinds = pipeline.schedule == kZeroBubbleH1 ? 3 : 2;
  EXPECT_EQ(std::count_if(done.begin(), done.end(), [](const auto& one) { return one.second; }),
            kinds * (last_piece + 1) * pipeline.micro_batches);
  return true;
}

TEST(PipelineSteps, OfDrawnPipelinesAreDoneOnceEachAndWaitInNoCycle) {
  std::mt19937 random(20261128);
  const auto draw = [&](uint32_t from, uint32_t to) {
    return std::uniform_int_distribution<uint32_t>(from, to)(random);
  };
  for (int i = 0; i < 300; ++i) {
    Pipeline pipeline = {kPipelineScheduleNames[draw(0, 3)].second, draw(1, 17), draw(1, 40)};
    if (pipeline.schedule == kInterleaved) {
      pipeline.chunks = draw(2, 5);
      pipeline.micro_batches = pipeline.stages * draw(1, 5);
    }
    EXPECT_TRUE(comes_to_its_end(pipeline))
        << name_of(kPipelineScheduleNames, pipeline.schedule) << ", " << pipeline.stages
        << " stages, " << pipeline.micro_batches << " micro-batches, " << pipeline.chunks
        << " chunks";
  }
}

std::string refusal(const Pipeline& pipeline) {
  const auto fits = check_pipeline(pipeline);
  return fits ? "" : fits.error().text;
}

TEST(CheckPipeline, SaysWhatToChange) {
  EXPECT_EQ(refusal({k1f1b, 0, 4}), "a pipeline needs at least 1 stage");
  EXPECT_EQ(refusal({k1f1b, 4, 0}), "a pipeline needs at least 1 micro-batch");
  EXPECT_EQ(refusal({k1f1b, 4, 4, 0}), "a stage needs at least 1 chunk");
  for (const PipelineSchedule schedule : {kGpipe, k1f1b, kZeroBubbleH1}) {
    EXPECT_EQ(refusal({schedule, 4, 4, 2}),
              "the schedule " + std::string(name_of(kPipelineScheduleNames, schedule)) +
                  " has 1 chunk per stage, not 2; use interleaved for more");
    EXPECT_EQ(refusal({schedule, 4, 3}), "");
  }
  EXPECT_EQ(refusal({kInterleaved, 4, 4, 1}),
            "the schedule interleaved needs 2 or more chunks per stage; with 1 use 1f1b");
  EXPECT_EQ(refusal({kInterleaved, 4, 10, 2}),
            "the schedule interleaved needs micro-batches in a multiple of its 4 stages, not 10; "
            "use 8 or 12");
  EXPECT_EQ(refusal({kInterleaved, 4, 3, 2}),
            "the schedule interleaved needs micro-batches in a multiple of its 4 stages, not 3; "
            "use 4");
  EXPECT_EQ(refusal({kInterleaved, 4, 8, 2}), "");
}

TEST(CheckPipeline, RefusesMoreStepsThanMemoryHolds) {
  const std::string too_many =
      "the stages together would have more than 33554432 steps; use fewer micro-batches, chunks or "
      "stages";
  EXPECT_EQ(refusal({k1f1b, 64, 1 << 18}), "");
  EXPECT_EQ(refusal({k1f1b, 64, (1 << 18) + 1}), too_many);
  EXPECT_EQ(refusal({kZeroBubbleH1, 64, 1 << 18}), too_many);
  EXPECT_EQ(refusal({kInterleaved, 64, 1 << 16, 4}), "");
  EXPECT_EQ(refusal({kInterleaved, 64, 1 << 16, 5}), too_many);
  EXPECT_EQ(refusal({kInterleaved, ~0u, ~0u, ~0u}), too_many);
}

}  // namespace
}  // namespace understudy
