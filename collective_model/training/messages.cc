#include "collective_model/training/messages.h"

#include "collective_model/training/memory.h"

namespace understudy {
namespace {

class StageMessages {
 public:
  StageMessages(const Transformer& model, const Parallel& parallel, uint32_t stage)
      : model_(model), parallel_(parallel), stage_(stage) {
    values_ = kTrainedValueBytes * parallel.micro_batch * model.sequence * model.hidden;
    held_ = static_cast<double>(rank_parameters(model, parallel, stage));
    layer_ = static_cast<double>(layer_parameters(model).of_rank(parallel.tp));
    layers_ = chunk_layers(model, parallel);
    ends_ = end_parameters(model, parallel, stage);
  }

  std::vector<MessagePhase> run() {
    const uint64_t times = parallel_.micro_batches();
    if (parallel_.zero == 1 || parallel_.zero == 2) {
      begin(MessagePhase::Kind::kBefore);
      data(Transfer::kAllGather, "weights", kTrainedValueBytes * held_);
    }
    for (uint32_t chunk = 0; chunk < parallel_.chunks; ++chunk) {
      begin(MessagePhase::Kind::kForward, chunk, times);
      forward(chunk);
    }
    for (uint32_t chunk = parallel_.chunks; chunk-- > 0;) {
      begin(MessagePhase::Kind::kBackward, chunk, times);
      backward(chunk);
    }
    begin(MessagePhase::Kind::kAfter);
    after();
    std::erase_if(phases_, [](const MessagePhase& phase) { return phase.messages.empty(); });
    return std::move(phases_);
  }

 private:
  using Group = TrainingGroup;
  using Transfer = TrainingTransfer;

  bool first(uint32_t chunk) const { return stage_ == 0 && chunk == 0; }
  bool last(uint32_t chunk) const {
    return stage_ + 1 == parallel_.pp && chunk + 1 == parallel_.chunks;
  }

  /// An embedding and an output layer.
  bool has_ends() const { return model_.vocabulary > 0; }

  void begin(MessagePhase::Kind kind, uint32_t chunk = 0, uint64_t times = 1) {
    phases_.push_back({kind, chunk, times, {}});
  }
  void add(TrainingMessage message) {
    if (message.count > 0) phases_.back().messages.push_back(message);
  }
  void tensor(Transfer transfer, std::string_view what, double bytes, uint64_t count = 1) {
    if (parallel_.tp > 1) add({Group::kTensor, transfer, what, bytes, count});
  }
  /// Inputs that sequence parallelism has divided: gathered while the inputs' gradient is computed.
  void saved(std::string_view what, uint64_t count = 1) {
    if (parallel_.tp > 1) {
      add({Group::kTensor, Transfer::kAllGather, what, values_, count, true});
    }
  }
  void data(Transfer transfer, std::string_view what, double bytes, uint64_t count = 1) {
    if (parallel_.dp > 1) add({Group::kData, transfer, what, bytes, count});
  }
  void pipeline(Transfer transfer, std::string_view what) {
    const double bytes = parallel_.sequence_parallel ? values_ / parallel_.tp : values_;
    if (parallel_.pp > 1) add({Group::kPipeline, transfer, what, bytes, 1});
  }

  /// Attention and network of each layer, forward.
  void layers_forward(std::string_view what) {
    if (parallel_.sequence_parallel) {
      tensor(Transfer::kAllGather, what, values_, uint64_t{2} * layers_);
      tensor(Transfer::kReduceScatter, what, values_, uint64_t{2} * layers_);
    } else {
      tensor(Transfer::kAllReduce, what, values_, uint64_t{2} * layers_);
    }
  }

  void forward(uint32_t chunk) {
    if (!first(chunk)) pipeline(Transfer::kReceive, "activations");
    if (first(chunk) && has_ends()) {
      tensor(parallel_.sequence_parallel ? Transfer::kReduceScatter : Transfer::kAllReduce,
             "embedding", values_);
    }
    if (parallel_.zero == 3) {
      if (ends_of(chunk) > 0)
        data(Transfer::kAllGather, "weights of the ends", kTrainedValueBytes * ends_of(chunk));
      data(Transfer::kAllGather, "weights of a layer", kTrainedValueBytes * layer_, layers_);
    }
    layers_forward("attention, network");
    if (!last(chunk)) return pipeline(Transfer::kSend, "activations");
    if (!has_ends()) return;
    if (parallel_.sequence_parallel) tensor(Transfer::kAllGather, "output layer", values_);
    // The greatest logit, the one that is right, the sum of exponentials: fp32 of each token.
    tensor(Transfer::kAllReduce, "loss", 4.0 * parallel_.micro_batch * model_.sequence, 3);
  }

  void backward(uint32_t chunk) {
    if (!last(chunk)) {
      pipeline(Transfer::kReceive, "gradients of activations");
    } else if (has_ends() && parallel_.sequence_parallel) {
      saved("output layer's saved input");
      tensor(Transfer::kReduceScatter, "output layer's input", values_);
    } else if (has_ends()) {
      tensor(Transfer::kAllReduce, "output layer's input", values_);
    }
    if (parallel_.zero == 3)
      data(Transfer::kAllGather, "weights of a layer", kTrainedValueBytes * layer_, layers_);
    if (parallel_.recompute == Recompute::kFull) layers_forward("attention, network once more");
    if (parallel_.sequence_parallel) {
      tensor(Transfer::kAllGather, "gradients of network, attention", values_,
             uint64_t{2} * layers_);
      saved("saved inputs of network, attention", uint64_t{2} * layers_);
      tensor(Transfer::kReduceScatter, "inputs of network, attention", values_,
             uint64_t{2} * layers_);
    } else {
      tensor(Transfer::kAllReduce, "inputs of network, attention", values_, uint64_t{2} * layers_);
    }
    const double gradient = parallel_.gradient_bytes;
    if (parallel_.zero == 3) {
      data(Transfer::kReduceScatter, "gradients of a layer", gradient * layer_, layers_);
      if (ends_of(chunk) > 0) {
        data(Transfer::kReduceScatter, "gradients of the ends", gradient * ends_of(chunk));
      }
    } else if (parallel_.zero == 2) {
      data(Transfer::kReduceScatter, "gradients", gradient * (layer_ * layers_ + ends_of(chunk)));
    }
    if (first(chunk) && has_ends() && parallel_.sequence_parallel) {
      tensor(Transfer::kAllGather, "embedding", values_);
    }
    if (!first(chunk)) pipeline(Transfer::kSend, "gradients of activations");
  }

  /// Parameters of embedding, last norm and output layer that belong to this chunk.
  double ends_of(uint32_t chunk) const {
    return (first(chunk) ? static_cast<double>(ends_.first) : 0) +
           (last(chunk) ? static_cast<double>(ends_.last) : 0);
  }

  void after() {
    const double gradient = parallel_.gradient_bytes;
    if (parallel_.zero == 0) data(Transfer::kAllReduce, "gradients", gradient * held_);
    if (parallel_.zero == 1) data(Transfer::kReduceScatter, "gradients", gradient * held_);
    const bool end = stage_ == 0 || stage_ + 1 == parallel_.pp;
    if (end && has_tied_ends(model_, parallel_)) {
      const double words = static_cast<double>(model_.vocabulary) * model_.hidden / parallel_.tp;
      add({Group::kPipeline, Transfer::kAllReduce, "gradients of the tied embedding",
           gradient * words, 1});
    }
  }

  const Transformer& model_;
  const Parallel& parallel_;
  uint32_t stage_;
  double values_ = 0;  ///< bytes of a micro-batch's activations between layers
  double held_ = 0;    ///< parameters of the GPU
  double layer_ = 0;   ///< of one of its layers
  uint32_t layers_ = 0;
  EndParameters ends_;
  std::vector<MessagePhase> phases_;
};

}  // namespace

double TrainingMessage::sent(uint32_t ranks) const {
  const double part = (ranks - 1.0) / ranks;
  const double all = bytes * static_cast<double>(count);
  switch (transfer) {
    case TrainingTransfer::kAllReduce:
      return 2 * part * all;
    case TrainingTransfer::kAllGather:
    case TrainingTransfer::kReduceScatter:
      return part * all;
    case TrainingTransfer::kSend:
      return all;
    case TrainingTransfer::kReceive:
      break;
  }
  return 0;
}

uint32_t ranks_of(const TrainingMessage& message, const Parallel& parallel) {
  switch (message.group) {
    case TrainingGroup::kTensor:
      return parallel.tp;
    case TrainingGroup::kData:
      return parallel.dp;
    case TrainingGroup::kPipeline:
      break;
  }
  return 2;  // a message's ends, and both ends of the pipeline
}

std::vector<MessagePhase> stage_messages(const Transformer& model, const Parallel& parallel,
                                         uint32_t stage) {
  return StageMessages(model, parallel, stage).run();
}

TrainingTraffic traffic_of(const std::vector<MessagePhase>& phases, const Parallel& parallel,
                           TrainingGroup group) {
  TrainingTraffic traffic;
  for (const MessagePhase& phase : phases) {
    for (const TrainingMessage& message : phase.messages) {
      if (message.group != group) continue;
      traffic.operations += message.count * phase.times;
      traffic.bytes += message.sent(ranks_of(message, parallel)) * static_cast<double>(phase.times);
    }
  }
  return traffic;
}

}  // namespace understudy
