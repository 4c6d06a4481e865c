#include "collective_model/training/parallel.h"

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

}  // namespace

std::vector<Misfit> misfits(const Transformer& model, const Parallel& parallel) {
  Misfits found;
  found.divides("model", "heads", model.heads, model.hidden, "hidden");
  found.divides("model", "kv_groups", model.kv_groups, model.heads, "heads");
  const uint64_t tp = parallel.tp;
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
  } else if (parallel.sequence_parallel) {
    found.divides("parallel", "tp", tp, model.sequence, "sequence, with sequence_parallel");
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

uint64_t rank_parameters(const Transformer& model, const Parallel& parallel, uint32_t stage) {
  const Parameters layers = layer_parameters(model) * (model.layers / parallel.pp);
  const EndParameters ends = end_parameters(model, parallel, stage);
  return layers.of_rank(parallel.tp) + ends.first + ends.last;
}

}  // namespace understudy
