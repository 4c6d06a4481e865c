#include "collective_model/training/messages.h"

#include <utility>

#include "collective_model/training/memory.h"

namespace understudy {
namespace {

class StageMessages {
 public:
  StageMessages(const Transformer& model, const Parallel& parallel, uint32_t stage)
      : model_(model), parallel_(parallel), stage_(stage) {
    values_ =
        kTrainedValueBytes * parallel.micro_batch * model.sequence * model.hidden / parallel.cp;
    held_ = held_parameters(model, parallel, stage);
    layers_ = chunk_layers(model, parallel);
    ends_ = end_parameters(model, parallel, stage);
  }

  std::vector<MessagePhase> run() {
    const uint64_t times = parallel_.micro_batches();
    if (parallel_.zero == 1 || parallel_.zero == 2) {
      begin(MessagePhase::Kind::kBefore);
      data(Transfer::kAllGather, "weights", kTrainedValueBytes * static_cast<double>(held_.common));
      expert_data(Transfer::kAllGather, "weights of experts",
                  kTrainedValueBytes * static_cast<double>(held_.experts));
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
    dense_ = dense_chunk_layers(model_, parallel_, stage_, chunk);
    experts_ = layers_ - dense_;
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
    if (parallel_.replicas() > 1) add({Group::kData, transfer, what, bytes, count});
  }
  void expert_data(Transfer transfer, std::string_view what, double bytes, uint64_t count = 1) {
    if (bytes > 0 && parallel_.replicas() > parallel_.ep) {
      add({Group::kExpertData, transfer, what, bytes, count});
    }
  }
  void route(std::string_view what, uint64_t count) {
    if (parallel_.ep > 1) {
      add({Group::kExperts, Transfer::kAllToAll, what, routed_bytes(model_, parallel_), count});
    }
  }
  /// Beside the computing of scores.
  void keys(std::string_view what, double times = 1) {
    const double all = times * parallel_.cp * key_bytes(model_, parallel_);
    if (parallel_.cp > 1) add({Group::kContext, Transfer::kAllGather, what, all, layers_, true});
  }
  void pipeline(Transfer transfer, std::string_view what) {
    const double bytes = parallel_.sequence_parallel ? values_ / parallel_.tp : values_;
    if (parallel_.pp > 1) add({Group::kPipeline, transfer, what, bytes, 1});
  }

  /// Attention and network of each layer, forward.
  void layers_forward(bool again) {
    keys(again ? "keys and values once more" : "keys and values");
    // Of a layer with experts: attention, and the network of shared ones.
    const uint64_t others = uint64_t{experts_} * (model_.shared_experts > 0 ? 2 : 1);
    const uint64_t count = uint64_t{2} * dense_ + others;
    const std::string_view what = again ? "attention, network once more" : "attention, network";
    if (parallel_.sequence_parallel) {
      tensor(Transfer::kAllGather, what, values_, count);
      tensor(Transfer::kReduceScatter, what, values_, count);
    } else {
      tensor(Transfer::kAllReduce, what, values_, count);
    }
    if (experts_ == 0) return;
    route(again ? "tokens to experts once more" : "tokens to experts", experts_);
    experts_network(again ? "experts once more" : "experts");
    route(again ? "tokens from experts once more" : "tokens from experts", experts_);
  }
  /// Tokens that experts have are gathered over tensor ranks, and what comes out is scattered; on the way back it
  /// is the same.
  void experts_network(std::string_view what) {
    const double all = routed_bytes(model_, parallel_) * parallel_.tp;
    tensor(Transfer::kAllGather, what, all, experts_);
    tensor(Transfer::kReduceScatter, what, all, experts_);
  }
  void layers_backward() {
    keys("keys, values and their gradients", 2);
    if (experts_ > 0) {
      route("gradients to experts", experts_);
      experts_network("gradients of experts");
      route("gradients from experts", experts_);
    }
    const uint64_t count =
        uint64_t{2} * dense_ + uint64_t{experts_} * (model_.shared_experts > 0 ? 2 : 1);
    if (parallel_.sequence_parallel) {
      tensor(Transfer::kAllGather, "gradients of network, attention", values_, count);
      saved("saved inputs of network, attention", count);
      tensor(Transfer::kReduceScatter, "inputs of network, attention", values_, count);
    } else {
      tensor(Transfer::kAllReduce, "inputs of network, attention", values_, count);
    }
  }
  /// ZeRO's stage 3, layer by layer.
  void layer_data(Transfer transfer, double bytes, std::string_view what,
                  std::string_view of_experts) {
    for (const auto& [kind, count] :
         {std::pair{LayerKind::kDense, dense_}, {LayerKind::kExperts, experts_}}) {
      const HeldParameters one = held_layer(model_, parallel_, kind);
      data(transfer, what, bytes * static_cast<double>(one.common), count);
      expert_data(transfer, of_experts, bytes * static_cast<double>(one.experts), count);
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
      layer_data(Transfer::kAllGather, kTrainedValueBytes, "weights of a layer",
                 "weights of a layer's experts");
    }
    layers_forward(false);
    if (!last(chunk)) return pipeline(Transfer::kSend, "activations");
    if (!has_ends()) return;
    if (parallel_.sequence_parallel) tensor(Transfer::kAllGather, "output layer", values_);
    // The greatest logit, the one that is right, the sum of exponentials: fp32 of each token.
    tensor(Transfer::kAllReduce, "loss",
           4.0 * parallel_.micro_batch * model_.sequence / parallel_.cp, 3);
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
    if (parallel_.zero == 3) {
      layer_data(Transfer::kAllGather, kTrainedValueBytes, "weights of a layer",
                 "weights of a layer's experts");
    }
    if (parallel_.recompute == Recompute::kFull) layers_forward(true);
    layers_backward();
    const double gradient = parallel_.gradient_bytes;
    if (parallel_.zero == 3) {
      layer_data(Transfer::kReduceScatter, gradient, "gradients of a layer",
                 "gradients of a layer's experts");
      if (ends_of(chunk) > 0) {
        data(Transfer::kReduceScatter, "gradients of the ends", gradient * ends_of(chunk));
      }
    } else if (parallel_.zero == 2) {
      const HeldParameters held = held_chunk(model_, parallel_, stage_, chunk);
      data(Transfer::kReduceScatter, "gradients",
           gradient * (static_cast<double>(held.common) + ends_of(chunk)));
      expert_data(Transfer::kReduceScatter, "gradients of experts",
                  gradient * static_cast<double>(held.experts));
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
    if (parallel_.zero < 2) {
      const Transfer transfer =
          parallel_.zero == 0 ? Transfer::kAllReduce : Transfer::kReduceScatter;
      data(transfer, "gradients", gradient * static_cast<double>(held_.common));
      expert_data(transfer, "gradients of experts", gradient * static_cast<double>(held_.experts));
    }
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
  double values_ = 0;    ///< bytes of a micro-batch's activations between layers
  HeldParameters held_;  ///< of the GPU
  uint32_t layers_ = 0;
  uint32_t dense_ = 0, experts_ = 0;  ///< of these, in the chunk at hand
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
    case TrainingTransfer::kAllToAll:
      return part * all;
    case TrainingTransfer::kSend:
      return all;
    case TrainingTransfer::kReceive:
      break;
  }
  return 0;
}

double routed_bytes(const Transformer& model, const Parallel& parallel) {
  const double tokens = double{1} * parallel.micro_batch * model.sequence / parallel.cp;
  return kTrainedValueBytes * tokens * model.hidden * routed_tokens(model) / parallel.tp;
}

uint32_t ranks_of(const TrainingMessage& message, const Parallel& parallel) {
  switch (message.group) {
    case TrainingGroup::kTensor:
      return parallel.tp;
    case TrainingGroup::kData:
      return parallel.replicas();
    case TrainingGroup::kExpertData:
      return parallel.replicas() / parallel.ep;
    case TrainingGroup::kExperts:
      return parallel.ep;
    case TrainingGroup::kContext:
      return parallel.cp;
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
