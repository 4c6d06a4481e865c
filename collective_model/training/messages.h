// Which messages a GPU takes part in during one iteration, in their order: the operations that a
// framework starts, each with its size, not the packets. The order between phases is the pipeline's
// (pipeline_steps()). Rules: Megatron-LM's, arXiv 1909.08053 (tensor), arXiv 2205.05198 (sequence),
// arXiv 2104.04473 (pipeline), arXiv 1910.02054 (ZeRO). Experts: Megatron-LM's all-to-all dispatcher. Context:
// keys and values go around a ring (arXiv 2310.01889), on the way back with their gradients.
#pragma once

#include "collective_model/training/parallel.h"

namespace understudy {

/// Who takes part: the ranks of which only this index differs.
enum class TrainingGroup : uint8_t {
  kTensor,
  kPipeline,
  kData,        ///< all replicas of a stage
  kExpertData,  ///< those that have the same experts
  kExperts,     ///< those that have all experts together
  kContext,     ///< those that have a sequence together
};
inline constexpr TrainingGroup kTrainingGroups[] = {
    TrainingGroup::kTensor,     TrainingGroup::kPipeline, TrainingGroup::kData,
    TrainingGroup::kExpertData, TrainingGroup::kExperts,  TrainingGroup::kContext};

enum class TrainingTransfer : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive
};

/// Equal operations, one after another where nothing else is said.
struct TrainingMessage {
  TrainingGroup group = TrainingGroup::kTensor;
  TrainingTransfer transfer = TrainingTransfer::kAllReduce;
  std::string_view what;  ///< in words
  /// Of all ranks' parts together: what an all-reduce or an all-to-all has on each rank, an all-gather has after
  /// and a reduce-scatter before it. Keys and values that go around a ring are an all-gather.
  double bytes = 0;
  uint64_t count = 1;
  bool beside =
      false;  ///< what is computed does not wait for it: a weights' gradient does, behind that

  /// Sent by one rank of a ring of `ranks`, all operations together: 2(n-1)/n of an all-reduce's bytes,
  /// (n-1)/n of the others'. Of a message: all of it by its sender, none by its receiver.
  double sent(uint32_t ranks) const;
};

/// Bytes that a rank gives to a layer's experts for one micro-batch, and gets back.
double routed_bytes(const Transformer& model, const Parallel& parallel);

/// How many ranks take part in it.
uint32_t ranks_of(const TrainingMessage& message, const Parallel& parallel);

/// What happens `times` times during an iteration.
struct MessagePhase {
  enum class Kind : uint8_t {
    kBefore,    ///< the iteration
    kForward,   ///< of one chunk and micro-batch
    kBackward,  ///< of one chunk and micro-batch
    kAfter,     ///< the last backward
  };
  Kind kind = Kind::kForward;
  uint32_t chunk = 0;
  uint64_t times = 1;
  std::vector<TrainingMessage> messages;  ///< in order; those of layers stand once for all of them
};

/// Of a GPU of this stage. Groups of one rank send nothing and are left out. Gradients are not cut into
/// buckets: they are one operation behind the last backward, or with ZeRO's stage 2 behind each one and
/// with stage 3 layer by layer. Operations of a few bytes (norm of the gradients, mean loss) are left out.
std::vector<MessagePhase> stage_messages(const Transformer& model, const Parallel& parallel,
                                         uint32_t stage);

/// The sum of one kind of communication.
struct TrainingTraffic {
  uint64_t operations = 0;  ///< receives count
  double bytes = 0;         ///< sent by the GPU
};
TrainingTraffic traffic_of(const std::vector<MessagePhase>& phases, const Parallel& parallel,
                           TrainingGroup group);

}  // namespace understudy
