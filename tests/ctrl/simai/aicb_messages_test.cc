// The forward messages of tensor parallelism that this project's training model lists, beside the lists
// that AICB wrote for the same jobs. (What goes back differs: AICB has none without sequence parallelism,
// and reduce-scatters of 0 bytes with it.)
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "collective_model/training/messages.h"
#include "ctrl/simai/simai_file.h"

namespace understudy {
namespace {

using Counts = std::map<std::pair<SimaiCollective, uint64_t>, uint64_t>;  ///< by kind and bytes

/// Collectives of layers between the embedding and the loss.
Counts of_list(const SimaiWorkload& workload) {
  Counts counts;
  for (const SimaiLayer& layer : workload.layers) {
    const bool matrices = layer.name.starts_with("attention") || layer.name.starts_with("mlp") ||
                          layer.name.starts_with("final");
    if (matrices) ++counts[{layer.forward.collective, layer.forward.bytes}];
  }
  return counts;
}

SimaiCollective kind(TrainingTransfer transfer) {
  switch (transfer) {
    case TrainingTransfer::kAllReduce:
      return SimaiCollective::kAllReduce;
    case TrainingTransfer::kAllGather:
      return SimaiCollective::kAllGather;
    case TrainingTransfer::kReduceScatter:
      return SimaiCollective::kReduceScatter;
    default:
      return SimaiCollective::kNone;
  }
}

Counts of_model(const Transformer& model, const Parallel& parallel) {
  Counts counts;
  for (const MessagePhase& phase : stage_messages(model, parallel, 0)) {
    if (phase.kind != MessagePhase::Kind::kForward) continue;
    for (const TrainingMessage& message : phase.messages) {
      if (message.group != TrainingGroup::kTensor) continue;
      if (message.what == "embedding" || message.what == "loss") continue;
      counts[{kind(message.transfer), static_cast<uint64_t>(std::llround(message.bytes))}] +=
          message.count * phase.times;
    }
  }
  return counts;
}

Counts list_of(const std::string& name) {
  const auto file = read_simai(UNDERSTUDY_TEST_DATA "/workloads/simai/" + name);
  EXPECT_TRUE(file) << (file ? "" : file.error().text());
  return file ? of_list(file->workload) : Counts{};
}

TEST(AicbMessages, WithoutSequenceParallelism) {
  const Transformer model{.layers = 40,
                          .hidden = 5120,
                          .heads = 40,
                          .kv_groups = 40,
                          .feed_forward = 20480,
                          .vocabulary = 50688,
                          .sequence = 2048};
  const Parallel parallel{.tp = 4, .dp = 16, .micro_batch = 1, .global_batch = 128};
  const Counts counts = of_model(model, parallel);
  EXPECT_EQ(counts, list_of("gpt13b_tp4_nosp_aiob.txt"));
  EXPECT_EQ(counts.at({SimaiCollective::kAllReduce, 20'971'520}), 640u);
}

TEST(AicbMessages, WithSequenceParallelism) {
  const Transformer model{.layers = 32,
                          .hidden = 4096,
                          .heads = 32,
                          .kv_groups = 32,
                          .feed_forward = 16384,
                          .vocabulary = 50432,
                          .sequence = 2048};
  const Parallel parallel{
      .tp = 2, .dp = 16, .micro_batch = 1, .global_batch = 64, .sequence_parallel = true};
  const Counts counts = of_model(model, parallel);
  EXPECT_EQ(counts, list_of("gpt7b_tp2_sp.txt"));
  EXPECT_EQ(counts.at({SimaiCollective::kAllGather, 16'777'216}), 260u);
  EXPECT_EQ(counts.at({SimaiCollective::kReduceScatter, 16'777'216}), 256u);
}

}  // namespace
}  // namespace understudy
