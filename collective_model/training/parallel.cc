#include "collective_model/training/parallel.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

class Misfits {
 public:
  /// `number` of `of` must be a multiple of `divisor`, which is the key at fault.
  void divides(const char* table, const char* key, uint64_t divisor, uint64_t number,
               const std::string& of) {
    if (number % divisor == 0) return;
    found_.push_back({table, key, divisor, "it must divide " + of + ", " + std::to_string(number)});
  }
  void add(Misfit misfit) { found_.push_back(std::move(misfit)); }
  std::vector<Misfit> take() { return std::move(found_); }

 private:
  std::vector<Misfit> found_;
};

void check_experts(const Transformer& model, const Parallel& parallel, Misfits& found) {
  const uint64_t tp = parallel.tp, ep = parallel.ep, replicas = parallel.replicas();
  if (model.experts == 0) {
    if (ep > 1) found.add({"parallel", "ep", ep, "the model has no experts ([model] experts)"});
    return;
  }
  if (model.top_k > model.experts) {
    found.add({"model", "top_k", model.top_k,
               "a token has no more than the " + std::to_string(model.experts) + " experts"});
  }
  if (model.dense_layers > model.layers) {
    found.add({"model", "dense_layers", model.dense_layers,
               "the model has " + std::to_string(model.layers) + " layers"});
  }
  if (model.experts % ep != 0) {
    found.divides("parallel", "ep", ep, model.experts, "experts");
  } else if (replicas % ep != 0) {
    found.divides("parallel", "ep", ep, replicas, parallel.cp > 1 ? "dp * cp" : "dp");
  } else if (model.expert_feed_forward % tp != 0) {
    found.divides("parallel", "tp", tp, model.expert_feed_forward, "expert_feed_forward");
  } else if (tp > 1 && !parallel.sequence_parallel) {
    found.add({"parallel", "tp", tp,
               "with experts it needs sequence_parallel = true, as in Megatron-LM"});
  }
}

}  // namespace

std::vector<Misfit> misfits(const Transformer& model, const Parallel& parallel) {
  Misfits found;
  found.divides("model", "heads", model.heads, model.hidden, "hidden");
  found.divides("model", "kv_groups", model.kv_groups, model.heads, "heads");
  check_experts(model, parallel, found);
  const uint64_t tp = parallel.tp, cp = parallel.cp;
  if (model.heads % tp != 0) {
    found.divides("parallel", "tp", tp, model.heads, "heads");
  } else if (model.kv_groups % tp != 0) {
    found.divides("parallel", "tp", tp, model.kv_groups, "kv_groups");
  } else if (model.feed_forward % tp != 0) {
    found.divides("parallel", "tp", tp, model.feed_forward, "feed_forward");
  } else if (model.vocabulary % tp != 0) {
    const uint64_t padded = (model.vocabulary / tp + 1) * tp;
    found.add({"parallel", "tp", tp,
               "it must divide vocabulary, " + std::to_string(model.vocabulary) +
                   "; frameworks pad it, here to " + std::to_string(padded) + " or more"});
  } else if (model.sequence % cp != 0) {
    found.divides("parallel", "cp", cp, model.sequence, "sequence");
  } else if (parallel.sequence_parallel) {
    found.divides(
        "parallel", "tp", tp, model.sequence / cp,
        cp > 1 ? "sequence / cp, with sequence_parallel" : "sequence, with sequence_parallel");
  }
  const uint64_t pieces = uint64_t{parallel.pp} * parallel.chunks;
  if (model.layers % pieces != 0) {
    const bool chunks = parallel.chunks > 1;
    found.divides("parallel", "pp", chunks ? pieces : parallel.pp, model.layers,
                  chunks ? "layers; it is times chunks" : "layers");
  }
  const uint64_t at_once = uint64_t{parallel.micro_batch} * parallel.dp;
  if (parallel.global_batch % at_once != 0) {
    found.add({"parallel", "global_batch", parallel.global_batch,
               "it must be a multiple of micro_batch * dp, " + std::to_string(at_once)});
  } else if (parallel.micro_batches() > UINT32_MAX) {
    found.add({"parallel", "global_batch", parallel.global_batch, "too many micro-batches"});
  } else if (const auto fits = check_pipeline(pipeline_of(parallel)); !fits) {
    const bool wrong_chunks =
        (parallel.schedule == PipelineSchedule::kInterleaved) == (parallel.chunks == 1);
    if (wrong_chunks) {
      found.add({"parallel", "chunks", parallel.chunks, fits.error().text});
    } else {
      found.add({"parallel", "global_batch", parallel.global_batch, fits.error().text});
    }
  }
  return found.take();
}

Pipeline pipeline_of(const Parallel& parallel) {
  return {parallel.schedule, parallel.pp, static_cast<uint32_t>(parallel.micro_batches()),
          parallel.chunks};
}

uint32_t chunk_layers(const Transformer& model, const Parallel& parallel) {
  return model.layers / (parallel.pp * parallel.chunks);
}

bool has_tied_ends(const Transformer& model, const Parallel& parallel) {
  return parallel.pp > 1 && model.tied_embeddings && model.vocabulary > 0;
}

uint32_t dense_chunk_layers(const Transformer& model, const Parallel& parallel, uint32_t stage,
                            uint32_t chunk) {
  const uint32_t layers = chunk_layers(model, parallel);
  if (model.experts == 0) return layers;
  const uint32_t before = (chunk * parallel.pp + stage) * layers;
  return std::min(layers, model.dense_layers - std::min(model.dense_layers, before));
}

LayerKind chunk_layer_kind(const Transformer& model, const Parallel& parallel, uint32_t stage,
                           uint32_t chunk, uint32_t layer) {
  const bool dense = layer < dense_chunk_layers(model, parallel, stage, chunk);
  return dense ? LayerKind::kDense : LayerKind::kExperts;
}

HeldParameters held_layer(const Transformer& model, const Parallel& parallel, LayerKind kind) {
  const Parameters all = layer_parameters(model, kind);
  const uint64_t common = all.of_rank(parallel.tp), experts = all.experts / parallel.tp;
  if (parallel.ep == 1) return {common + experts, 0};
  return {common, experts / parallel.ep};
}

HeldParameters held_chunk(const Transformer& model, const Parallel& parallel, uint32_t stage,
                          uint32_t chunk) {
  const uint32_t dense = dense_chunk_layers(model, parallel, stage, chunk);
  const uint32_t others = chunk_layers(model, parallel) - dense;
  HeldParameters sum;
  for (const auto& [kind, count] :
       {std::pair{LayerKind::kDense, dense}, {LayerKind::kExperts, others}}) {
    const HeldParameters one = held_layer(model, parallel, kind);
    sum += {one.common * count, one.experts * count};
  }
  return sum;
}

HeldParameters held_layers(const Transformer& model, const Parallel& parallel, uint32_t stage) {
  HeldParameters sum;
  for (uint32_t chunk = 0; chunk < parallel.chunks; ++chunk) {
    sum += held_chunk(model, parallel, stage, chunk);
  }
  return sum;
}

EndParameters end_parameters(const Transformer& model, const Parallel& parallel, uint32_t stage) {
  EndParameters ends;
  if (stage == 0) ends.first = embedding_parameters(model).of_rank(parallel.tp);
  if (stage + 1 != parallel.pp) return ends;
  Parameters last = output_parameters(model);
  if (stage != 0 && model.tied_embeddings) {
    last.divided += model.vocabulary * uint64_t{model.hidden};
  }
  ends.last = last.of_rank(parallel.tp);
  return ends;
}

HeldParameters held_parameters(const Transformer& model, const Parallel& parallel, uint32_t stage) {
  HeldParameters sum = held_layers(model, parallel, stage);
  const EndParameters ends = end_parameters(model, parallel, stage);
  sum.common += ends.first + ends.last;
  return sum;
}

uint64_t rank_parameters(const Transformer& model, const Parallel& parallel, uint32_t stage) {
  return held_parameters(model, parallel, stage).all();
}

}  // namespace understudy
