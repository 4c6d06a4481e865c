// How long pipelines take: closed forms where messages take no time, a table of makespans by
// another simulation where they do, and of drawn ones that every step begins as early as it can.
#include "collective_model/training/pipeline_time.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>

namespace understudy {
namespace {

using Kind = PipelineStep::Kind;
using enum PipelineSchedule;

/// All chunks alike, in us.
ChunkTimes chunk_times(int64_t forward, int64_t backward, int64_t weight_gradient = 0) {
  return {Duration::us(forward), Duration::us(backward), Duration::us(weight_gradient)};
}

int64_t makespan_us(const Pipeline& pipeline, const ChunkTimes& times) {
  const auto line = time_pipeline(pipeline, {{times}});
  EXPECT_TRUE(line) << line.error().text;
  return line->makespan.ps() / Duration::us(1).ps();
}

/// Of arXiv 2104.04473, section 2.2, for `v` chunks of a stage that take F and B together.
TEST(PipelineTime, WithoutMessageTimeIsThatOfTheClosedForms) {
  for (uint32_t p = 2; p <= 8; ++p) {
    for (const uint32_t m : {1u, 2u, p - 1, p, p + 1, 4 * p, 5 * p + 3}) {
      for (const auto& [F, B] : {std::pair<int64_t, int64_t>(12, 24), {24, 12}, {12, 12}}) {
        SCOPED_TRACE(::testing::Message()
                     << p << " stages, " << m << " micro-batches, " << F << ", " << B);
        const int64_t all = (m + p - 1) * (F + B);
        EXPECT_EQ(makespan_us({kGpipe, p, m}, chunk_times(F, B)), all);
        EXPECT_EQ(makespan_us({k1f1b, p, m}, chunk_times(F, B)), all);
        // A backward that is not cut takes both its parts.
        EXPECT_EQ(makespan_us({k1f1b, p, m}, chunk_times(F, B - 5, 5)), all);
        for (const uint32_t v : {2u, 3u, 4u}) {
          EXPECT_EQ(makespan_us({kInterleaved, p, m * p, v}, chunk_times(F / v, B / v)),
                    m * p * (F + B) + (p - 1) * (F + B) / v);
        }
      }
    }
  }
}

/// Of arXiv 2401.10241, with as many micro-batches as stages or more: m (F + B + W) + (p - 1) (F +
/// B - W), where W is the shortest of the three. A longer W cannot save more than they do: the last
/// stage begins after p - 1 forwards and then has all to do, and the first stage, which holds p
/// micro-batches at most, waits for p - 1 backwards besides.
TEST(PipelineTime, OfZeroBubbleH1IsThatOfTheClosedForm) {
  const ChunkTimes drawn[] = {chunk_times(10, 10, 10), chunk_times(10, 12, 8),
                              chunk_times(12, 10, 0),  chunk_times(30, 10, 9),
                              chunk_times(5, 20, 10),  chunk_times(10, 8, 12)};
  for (uint32_t p = 2; p <= 8; ++p) {
    for (const uint32_t m : {p, p + 1, 2 * p, 4 * p, 5 * p + 3}) {
      for (const auto& times : drawn) {
        const auto& [F, B, W] = times;
        const Duration saved = std::min({F, B, W});
        const Duration expected = (F + B + W) * m + (F + B - saved) * (p - 1);
        const auto line = time_pipeline({kZeroBubbleH1, p, m}, {{times}});
        ASSERT_TRUE(line) << line.error().text;
        EXPECT_EQ(line->makespan, expected) << p << " stages, " << m << " micro-batches";
      }
    }
  }
}

struct Row {
  std::string schedule;
  Pipeline pipeline;
  int64_t forward = 0, backward = 0, message = 0;
  double makespan = 0, bubble = 0;
  std::vector<uint32_t> peaks;  ///< by stage
};

/// A header, then rows of fields without quotes.
std::vector<Row> rows_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<Row> rows;
  std::string text;
  std::getline(file, text);
  while (std::getline(file, text)) {
    std::replace(text.begin(), text.end(), ',', ' ');
    std::istringstream fields(text);
    Row row;
    Pipeline& pipeline = row.pipeline;
    fields >> row.schedule >> pipeline.stages >> pipeline.micro_batches >> pipeline.chunks >>
        row.forward >> row.backward >> row.message >> row.makespan >> row.bubble;
    EXPECT_TRUE(fields) << text;
    for (uint32_t peak; fields >> peak;) row.peaks.push_back(peak);
    for (const auto& [name, schedule] : kPipelineScheduleNames) {
      if (name == row.schedule) pipeline.schedule = schedule;
    }
    EXPECT_EQ(name_of(kPipelineScheduleNames, pipeline.schedule), row.schedule);
    rows.push_back(row);
  }
  return rows;
}

/// A row's unit of time is 1 us here. Its forward and backward times are those of all chunks of a
/// stage, of which each takes the same part. Its peaks count from a forward to the end of the
/// backward, in chunks.
TEST(PipelineTime, IsThatOfAnotherSimulation) {
  const auto rows = rows_of(UNDERSTUDY_TEST_DATA "/workloads/pipeline/makespans.csv");
  std::map<std::string, int> count;
  for (const Row& row : rows) {
    ++count[row.schedule];
    const auto& [schedule, p, m, v] = row.pipeline;
    SCOPED_TRACE(::testing::Message() << row.schedule << ", " << p << " stages, " << m
                                      << " micro-batches, " << v << " chunks");
    const ChunkTimes chunk = {Duration::us(row.forward) / v, Duration::us(row.backward) / v};
    ASSERT_EQ(chunk.forward * v, Duration::us(row.forward));
    const auto line = time_pipeline(row.pipeline, {{chunk}, {Duration::us(row.message)}});
    ASSERT_TRUE(line) << line.error().text;
    EXPECT_NEAR(line->makespan.microseconds(), row.makespan, 1e-6);
    ASSERT_EQ(line->stages.size(), row.peaks.size());
    for (uint32_t stage = 0; stage < p; ++stage) {
      const StageTimeline& one = line->stages[stage];
      EXPECT_NEAR((line->makespan - one.busy).microseconds(), row.bubble, 1e-6);
      EXPECT_EQ(one.held.until_backward, row.peaks[stage]);
    }
  }
  EXPECT_EQ(count, (std::map<std::string, int>{{"1f1b", 12}, {"gpipe", 12}, {"interleaved", 12}}));
}

TEST(PipelineTime, MessagesHaveTheTimeOfTheirTwoStages) {
  // Forward to 1 and 2, around to 0, and so on; then the same way back.
  const auto line = time_pipeline(
      {kInterleaved, 3, 3, 2},
      {{chunk_times(100, 100)}, {Duration::us(1), Duration::us(20), Duration::us(300)}});
  ASSERT_TRUE(line) << line.error().text;
  const auto begin = [&](uint32_t stage, const PipelineStep& step) {
    for (const TimedStep& timed : line->stages[stage].steps) {
      if (timed.step == step) return timed.start.ps() / Duration::us(1).ps();
    }
    return int64_t{-1};
  };
  const auto end = [&](uint32_t stage, const PipelineStep& step) {
    return begin(stage, step) + 100;
  };
  EXPECT_EQ(begin(1, {Kind::kForward, 0, 0}), 100 + 1);
  EXPECT_EQ(begin(2, {Kind::kForward, 0, 0}), 201 + 20);
  EXPECT_EQ(begin(0, {Kind::kForward, 0, 1}), 321 + 300);
  EXPECT_EQ(begin(1, {Kind::kBackward, 0, 1}), end(2, {Kind::kBackward, 0, 1}) + 20);
  EXPECT_EQ(begin(0, {Kind::kBackward, 0, 1}), end(1, {Kind::kBackward, 0, 1}) + 1);
  EXPECT_EQ(begin(2, {Kind::kBackward, 0, 0}), end(0, {Kind::kBackward, 0, 1}) + 300);
}

TEST(PipelineTime, OneStageWaitsForNothing) {
  for (const auto& [name, schedule] : kPipelineScheduleNames) {
    const Pipeline pipeline = {schedule, 1, 5, schedule == kInterleaved ? 2u : 1u};
    const auto line = time_pipeline(pipeline, {{chunk_times(3, 4, 2)}, {Duration::us(50)}});
    ASSERT_TRUE(line) << line.error().text;
    EXPECT_EQ(line->makespan, Duration::us(5 * pipeline.chunks * (3 + 4 + 2))) << name;
    EXPECT_EQ(line->stages[0].busy, line->makespan) << name;
  }
}

/// Each chunk and each way between stages has times of its own.
PipelineTimes draw_times(const Pipeline& pipeline, std::mt19937& random) {
  const auto draw = [&] {
    return Duration::ps(std::uniform_int_distribution<int64_t>(0, 5000)(random));
  };
  PipelineTimes times;
  for (uint32_t i = 0; i < pipeline.stages * pipeline.chunks; ++i) {
    times.chunks.push_back({draw(), draw(), draw()});
  }
  for (uint32_t i = 0; i < pipeline.stages; ++i) times.messages.push_back(draw());
  return times;
}

/// Every step begins at once when the one before it is done and its input is there.
void expect_earliest(const Pipeline& pipeline, const PipelineTimes& times) {
  const auto line = time_pipeline(pipeline, times);
  ASSERT_TRUE(line) << line.error().text;
  std::map<std::tuple<Kind, uint32_t, uint32_t>, Time>
      ends;  // kind, micro-batch, piece of the model
  for (uint32_t s = 0; s < pipeline.stages; ++s) {
    for (const auto& [step, start, end] : line->stages[s].steps) {
      ends[{step.kind, step.micro_batch, step.chunk * pipeline.stages + s}] = end;
    }
  }
  const uint32_t last_piece = pipeline.stages * pipeline.chunks - 1;
  Time last;
  for (uint32_t s = 0; s < pipeline.stages; ++s) {
    Time before;
    Duration busy;
    for (const auto& [step, start, end] : line->stages[s].steps) {
      const uint32_t piece = step.chunk * pipeline.stages + s;
      const ChunkTimes& own = times.chunks[s * pipeline.chunks + step.chunk];
      Time input;
      Duration length = own.weight_gradient;
      if (step.kind == Kind::kForward) {
        length = own.forward;
        const uint32_t from = (s + pipeline.stages - 1) % pipeline.stages;
        if (piece > 0) input = ends.at({step.kind, step.micro_batch, piece - 1});
        if (piece > 0 && from != s) input += times.messages[from];
      }
      if (step.kind == Kind::kBackward) {
        length = own.backward;
        if (pipeline.schedule != kZeroBubbleH1) length += own.weight_gradient;
        if (piece < last_piece) input = ends.at({step.kind, step.micro_batch, piece + 1});
        if (piece < last_piece && pipeline.stages > 1) input += times.messages[s];
      }
      ASSERT_EQ(start, std::max(before, input));
      ASSERT_EQ(end, start + length);
      busy += length;
      before = end;
    }
    EXPECT_EQ(line->stages[s].busy, busy);
    last = std::max(last, before);
  }
  EXPECT_EQ(line->makespan, last - Time::zero());
}

TEST(PipelineTime, OfDrawnPipelinesBeginsStepsAsEarlyAsTheyCan) {
  std::mt19937 random(20261129);
  const auto draw = [&](uint32_t from, uint32_t to) {
    return std::uniform_int_distribution<uint32_t>(from, to)(random);
  };
  for (int i = 0; i < 200; ++i) {
    Pipeline pipeline = {kPipelineScheduleNames[draw(0, 3)].second, draw(1, 12), draw(1, 30)};
    if (pipeline.schedule == kInterleaved) {
      pipeline.chunks = draw(2, 4);
      pipeline.micro_batches = pipeline.stages * draw(1, 4);
    }
    SCOPED_TRACE(::testing::Message() << name_of(kPipelineScheduleNames, pipeline.schedule) << ", "
                                      << pipeline.stages << " stages, " << pipeline.micro_batches
                                      << " micro-batches, " << pipeline.chunks << " chunks");
    expect_earliest(pipeline, draw_times(pipeline, random));
  }
}

std::string refusal(const Pipeline& pipeline, const PipelineTimes& times) {
  const auto line = time_pipeline(pipeline, times);
  return line ? "" : line.error().text;
}

TEST(PipelineTime, RefusesTimesThatDoNotFit) {
  const ChunkTimes one = chunk_times(1, 2);
  const Pipeline pipeline = {kInterleaved, 2, 4, 3};
  EXPECT_EQ(refusal({kInterleaved, 2, 4, 1}, {{one}}),
            "the schedule interleaved needs 2 or more chunks per stage; with 1 use 1f1b");
  EXPECT_EQ(refusal(pipeline, {std::vector(5, one)}),
            "a pipeline of 6 chunks needs as many compute times, or one for all, not 5");
  EXPECT_EQ(refusal(pipeline, {}),
            "a pipeline of 6 chunks needs as many compute times, or one for all, not 0");
  EXPECT_EQ(refusal(pipeline, {std::vector(6, one), std::vector(3, Duration())}),
            "a pipeline of 2 stages needs as many message times, or one for all, or none, not 3");
  EXPECT_EQ(refusal(pipeline, {std::vector(6, one), std::vector(2, Duration())}), "");
  for (const ChunkTimes& less : {chunk_times(-1, 2), chunk_times(1, -2), chunk_times(1, 2, -1)}) {
    EXPECT_EQ(refusal(pipeline, {{less}}),
              "a compute time of a pipeline is negative; use 0 or more");
  }
  EXPECT_EQ(refusal(pipeline, {{one}, {Duration::ps(-1)}}),
            "a message time of a pipeline is negative; use 0 or more");
}

TEST(PipelineTime, RefusesTimesThatMightNotFitInto64Bits) {
  const std::string too_long =
      "the steps and messages of a pipeline take more than 106 days together; use shorter times or "
      "fewer micro-batches";
  const Pipeline pipeline = {k1f1b, 4, 1000};
  const Duration share = Duration::max() / 4000;
  EXPECT_EQ(refusal(pipeline, {{{share, Duration()}}}), "");
  EXPECT_EQ(refusal(pipeline, {{{share, Duration::ps(1)}}}), too_long);
  EXPECT_EQ(refusal(pipeline, {{{Duration(), Duration(), Duration::max()}}}), too_long);
  EXPECT_EQ(refusal(pipeline, {{{Duration(), Duration()}}, {share}}), too_long);
}

}  // namespace
}  // namespace understudy
