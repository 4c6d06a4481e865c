// Messages of an iteration: counts, sizes and order by the papers' rules.
#include "collective_model/training/messages.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

using enum TrainingGroup;
using enum TrainingTransfer;

/// Operations of an iteration, and their bytes, of this kind and size.
uint64_t count(const std::vector<MessagePhase>& phases, TrainingGroup group,
               TrainingTransfer transfer, double bytes) {
  uint64_t sum = 0;
  for (const MessagePhase& phase : phases) {
    for (const TrainingMessage& m : phase.messages) {
      if (m.group == group && m.transfer == transfer && m.bytes == bytes)
        sum += m.count * phase.times;
    }
  }
  return sum;
}

Transformer small() {
  return {.layers = 16,
          .hidden = 1024,
          .heads = 16,
          .kv_groups = 16,
          .feed_forward = 4096,
          .vocabulary = 51200,
          .sequence = 2048};
}
constexpr double kValues = 2.0 * 2 * 2048 * 1024;  ///< of a micro-batch of 2

/// 4 l m/p all-reduces of the layers; one more for the embedding, one for the output layer's input, and
/// three of a value for each token for the loss.
TEST(TrainingMessages, TensorParallelismReducesFourTimesALayer) {
  const Parallel parallel{.tp = 8, .pp = 4, .micro_batch = 2, .global_batch = 12};
  const uint64_t layers = 4 * 16 * 6 / 4;
  for (uint32_t stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(stage);
    const auto phases = stage_messages(small(), parallel, stage);
    const uint64_t ends = stage == 0 || stage == 3 ? 6 : 0;
    EXPECT_EQ(count(phases, kTensor, kAllReduce, kValues), layers + ends);
    EXPECT_EQ(count(phases, kTensor, kAllReduce, 4.0 * 2 * 2048), stage == 3 ? 3u * 6 : 0u);
    const double reduced =
        static_cast<double>(layers + ends) * kValues + (stage == 3 ? 18.0 * 4 * 2 * 2048 : 0);
    EXPECT_DOUBLE_EQ(traffic_of(phases, parallel, kTensor).bytes, reduced * 2 * 7 / 8);
  }
}

/// AICB's list of a real iteration's operations (Llama 7B, TP 2, one micro-batch of 2048 tokens): 64
/// forward, 64 backward, one at each end, three of the loss; its gradients and weights are one operation
/// each. Counts: aliyun/aicb 23eec3c.
TEST(TrainingMessages, AreThoseOfAListOfOperations) {
  Transformer model = *find_transformer("llama2-7b");
  model.sequence = 2048;
  const Parallel parallel{.tp = 2, .dp = 64, .global_batch = 64, .zero = 1};
  const auto phases = stage_messages(model, parallel, 0);
  EXPECT_EQ(count(phases, kTensor, kAllReduce, 16'777'216), 130u);
  EXPECT_EQ(count(phases, kTensor, kAllReduce, 8192), 3u);
  const double held = static_cast<double>(rank_parameters(model, parallel, 0));
  EXPECT_EQ(count(phases, kData, kAllGather, 2 * held), 1u);
  EXPECT_EQ(count(phases, kData, kReduceScatter, 4 * held), 1u);
  EXPECT_EQ(traffic_of(phases, parallel, kData).operations, 2u);
}

TEST(TrainingMessages, SequenceParallelismGathersAndScattersInstead) {
  const Parallel parallel{
      .tp = 8, .pp = 4, .micro_batch = 2, .global_batch = 12, .sequence_parallel = true};
  const auto phases = stage_messages(small(), parallel, 1);
  const uint64_t layers = 16 * 6 / 4;
  EXPECT_EQ(count(phases, kTensor, kAllReduce, kValues), 0u);
  // Two each forward; backward two of gradients and two of saved inputs.
  EXPECT_EQ(count(phases, kTensor, kAllGather, kValues), 6 * layers);
  EXPECT_EQ(count(phases, kTensor, kReduceScatter, kValues), 4 * layers);
  EXPECT_EQ(count(phases, kPipeline, kSend, kValues / 8), 12u);
}

TEST(TrainingMessages, FullRecomputationRepeatsTheForwardsOnes) {
  Parallel parallel{.tp = 2, .global_batch = 3, .recompute = Recompute::kSelective};
  const double values = kValues / 2;
  EXPECT_EQ(count(stage_messages(small(), parallel, 0), kTensor, kAllReduce, values),
            (4 * 16 + 2) * 3u);
  parallel.recompute = Recompute::kFull;
  EXPECT_EQ(count(stage_messages(small(), parallel, 0), kTensor, kAllReduce, values),
            (6 * 16 + 2) * 3u);
}

/// 2 m v at each boundary; the last stage's next one is the first where there are chunks.
TEST(TrainingMessages, PipelinesSendOncePerChunkAndWay) {
  for (const uint32_t chunks : {1u, 2u, 4u}) {
    const Parallel parallel{
        .pp = 4,
        .chunks = chunks,
        .micro_batch = 2,
        .global_batch = 16,
        .schedule = chunks == 1 ? PipelineSchedule::k1f1b : PipelineSchedule::kInterleaved};
    const uint64_t all = uint64_t{2} * 8 * chunks;
    const uint64_t ends = all - 8;  // the model's first input and last output go nowhere
    for (const auto& [stage, sent] : {std::pair{0u, ends}, {1u, all}, {2u, all}, {3u, ends}}) {
      const auto phases = stage_messages(small(), parallel, stage);
      EXPECT_EQ(count(phases, kPipeline, kSend, kValues), sent) << chunks << " " << stage;
      EXPECT_EQ(count(phases, kPipeline, kReceive, kValues), sent) << chunks << " " << stage;
    }
  }
}

TEST(TrainingMessages, TheTiedEmbeddingsGradientsMeetAcrossThePipeline) {
  Transformer model = small();
  const Parallel parallel{.tp = 4, .pp = 4, .global_batch = 8};
  const double words = 4.0 * 51200 * 1024 / 4;
  EXPECT_EQ(count(stage_messages(model, parallel, 0), kPipeline, kAllReduce, words), 1u);
  EXPECT_EQ(count(stage_messages(model, parallel, 1), kPipeline, kAllReduce, words), 0u);
  EXPECT_EQ(count(stage_messages(model, parallel, 3), kPipeline, kAllReduce, words), 1u);
  model.tied_embeddings = false;
  EXPECT_EQ(count(stage_messages(model, parallel, 0), kPipeline, kAllReduce, words), 0u);
}

/// arXiv 1910.02054, section 7: stages 1 and 2 move as many bytes as an all-reduce of values of the same
/// size, stage 3 half as many again.
TEST(TrainingMessages, ZerosVolumeForOneMicroBatch) {
  const Transformer model = small();
  Parallel parallel{.dp = 8, .global_batch = 8, .gradient_bytes = 2};
  const double plain = traffic_of(stage_messages(model, parallel, 0), parallel, kData).bytes;
  EXPECT_DOUBLE_EQ(plain, 2.0 * 7 / 8 * 2 * static_cast<double>(model_parameters(model)));
  for (const uint32_t zero : {1u, 2u}) {
    parallel.zero = zero;
    EXPECT_DOUBLE_EQ(traffic_of(stage_messages(model, parallel, 0), parallel, kData).bytes, plain);
  }
  parallel.zero = 3;
  // The ends' weights stay from forward to backward: 1 in place of 1.5.
  const double layers = static_cast<double>(layer_parameters(model).all()) * model.layers;
  const double ends = static_cast<double>(model_parameters(model)) - layers;
  EXPECT_DOUBLE_EQ(traffic_of(stage_messages(model, parallel, 0), parallel, kData).bytes,
                   7.0 / 8 * 2 * (3 * layers + 2 * ends));
}

TEST(TrainingMessages, ZerosSecondStageScattersAfterEachBackward) {
  const Parallel parallel{.dp = 4, .global_batch = 12, .zero = 2};
  const double gradients = 4.0 * static_cast<double>(model_parameters(small()));
  EXPECT_EQ(count(stage_messages(small(), parallel, 0), kData, kReduceScatter, gradients), 3u);
}

TEST(TrainingMessages, OrderOfAPhase) {
  const Parallel parallel{.tp = 2,
                          .pp = 2,
                          .dp = 2,
                          .global_batch = 8,
                          .sequence_parallel = true,
                          .recompute = Recompute::kFull,
                          .zero = 3};
  const auto phases = stage_messages(small(), parallel, 1);
  ASSERT_EQ(phases.size(), 3u);
  const auto order = [](const MessagePhase& phase) {
    std::vector<std::pair<TrainingGroup, TrainingTransfer>> steps;
    for (const TrainingMessage& message : phase.messages) {
      steps.emplace_back(message.group, message.transfer);
    }
    return steps;
  };
  using Steps = std::vector<std::pair<TrainingGroup, TrainingTransfer>>;
  EXPECT_EQ(phases[0].kind, MessagePhase::Kind::kForward);
  EXPECT_EQ(order(phases[0]), (Steps{{kPipeline, kReceive},
                                     {kData, kAllGather},
                                     {kData, kAllGather},
                                     {kTensor, kAllGather},
                                     {kTensor, kReduceScatter},
                                     {kTensor, kAllGather},
                                     {kTensor, kAllReduce}}));
  EXPECT_EQ(phases[1].kind, MessagePhase::Kind::kBackward);
  EXPECT_EQ(order(phases[1]), (Steps{{kTensor, kAllGather},
                                     {kTensor, kReduceScatter},
                                     {kData, kAllGather},
                                     {kTensor, kAllGather},
                                     {kTensor, kReduceScatter},
                                     {kTensor, kAllGather},
                                     {kTensor, kAllGather},
                                     {kTensor, kReduceScatter},
                                     {kData, kReduceScatter},
                                     {kData, kReduceScatter},
                                     {kPipeline, kSend}}));
  EXPECT_EQ(phases[2].kind, MessagePhase::Kind::kAfter);
}

/// Megatron-LM's all-to-all dispatcher. AICB's list of this job (aliyun/aicb 23eec3c) has the same sizes.
TEST(TrainingMessages, TokensGoToExpertsAndBack) {
  Transformer model = *find_transformer("mixtral-8x7b");
  model.sequence = 2048;
  Parallel parallel{
      .tp = 2, .dp = 32, .ep = 8, .global_batch = 128, .sequence_parallel = true, .zero = 1};
  const double values = 2.0 * 2048 * 4096, routed = 2 * values / 2;
  const uint64_t passes = 32 * 4;
  auto phases = stage_messages(model, parallel, 0);
  EXPECT_EQ(count(phases, kExperts, kAllToAll, routed), 4 * passes);
  EXPECT_EQ(count(phases, kTensor, kAllGather, 2 * values), 2 * passes);
  EXPECT_EQ(count(phases, kTensor, kReduceScatter, 2 * values), 2 * passes);
  // Attention's: forward, backward and saved inputs; the embedding's and the output layer's two.
  EXPECT_EQ(count(phases, kTensor, kAllGather, values), 3 * passes + 3 * 4);
  const HeldParameters held = held_parameters(model, parallel, 0);
  EXPECT_EQ(count(phases, kExpertData, kReduceScatter, 4.0 * static_cast<double>(held.experts)),
            1u);
  EXPECT_EQ(count(phases, kData, kAllGather, 2.0 * static_cast<double>(held.common)), 1u);
  EXPECT_DOUBLE_EQ(traffic_of(phases, parallel, kExperts).bytes,
                   static_cast<double>(4 * passes) * routed * 7 / 8);
  EXPECT_DOUBLE_EQ(traffic_of(phases, parallel, kExpertData).bytes,
                   (4 + 2) * 3.0 / 4 * static_cast<double>(held.experts));
  parallel.recompute = Recompute::kFull;
  EXPECT_EQ(count(stage_messages(model, parallel, 0), kExperts, kAllToAll, routed), 6 * passes);
  parallel.ep = 1;
  EXPECT_EQ(count(stage_messages(model, parallel, 0), kExperts, kAllToAll, routed), 0u);
}

/// Keys and values of each layer to c-1 others, twice as much on the way back; gradients over all replicas.
TEST(TrainingMessages, KeysGoAroundTheContextsRing) {
  Transformer model = *find_transformer("llama3-8b");
  const Parallel parallel{.tp = 2, .dp = 2, .cp = 4, .global_batch = 6};
  const auto phases = stage_messages(model, parallel, 0);
  const double block = 2.0 * 2 * (8192.0 / 4) * 4096 * 8 / 32 / 2;
  EXPECT_EQ(count(phases, kContext, kAllGather, 4 * block), 32u * 3);
  EXPECT_EQ(count(phases, kContext, kAllGather, 8 * block), 32u * 3);
  EXPECT_DOUBLE_EQ(traffic_of(phases, parallel, kContext).bytes, 32.0 * 3 * 3 * 3 * block);
  EXPECT_EQ(count(phases, kTensor, kAllReduce, 2.0 * 8192 / 4 * 4096), (4u * 32 + 2) * 3);
  const double held = static_cast<double>(rank_parameters(model, parallel, 0));
  EXPECT_DOUBLE_EQ(traffic_of(phases, parallel, kData).bytes, 2.0 * 7 / 8 * 4 * held);
}

TEST(TrainingMessages, OneGpuSendsNothing) {
  EXPECT_TRUE(stage_messages(small(), {.global_batch = 4}, 0).empty());
}

/// 4 l m/p all-reduces and nothing else; no weights are tied between stages.
TEST(TrainingMessages, LayersAloneHaveNoEnds) {
  Transformer model = small();
  model.vocabulary = 0;
  Parallel parallel{.tp = 8, .pp = 4, .micro_batch = 2, .global_batch = 12};
  for (const uint32_t stage : {0U, 3U}) {
    const auto phases = stage_messages(model, parallel, stage);
    EXPECT_EQ(traffic_of(phases, parallel, kTensor).operations, 4U * 16 * 6 / 4);
    EXPECT_EQ(count(phases, kTensor, kAllReduce, kValues), 4U * 16 * 6 / 4);
    EXPECT_EQ(traffic_of(phases, parallel, kPipeline).operations, 2U * 6);
  }
  parallel.sequence_parallel = true;
  const auto phases = stage_messages(model, parallel, 0);
  EXPECT_EQ(count(phases, kTensor, kReduceScatter, kValues), 4U * 16 * 6 / 4);
}

}  // namespace
}  // namespace understudy
