// How a transformer is divided over GPUs: tensor parallelism within a layer, pipeline parallelism by
// layers, data parallelism by sequences, context parallelism by tokens of a sequence. The rank of a GPU is
// tensor + tp * (context + cp * (data + dp * stage)), as Megatron-LM numbers them.
//
// GPUs of one stage that hold the same part of its layers are its replicas: cp * dp of them, numbered
// context + cp * data. Expert parallelism divides experts over `ep` replicas that follow each other; each
// computes the rest of the layer for its own tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective_model/training/pipeline.h"
#include "collective_model/training/transformer.h"

namespace understudy {

struct Parallel {
  uint32_t tp = 1, pp = 1, dp = 1;
  uint32_t ep = 1;            ///< divides replicas() and the experts
  uint32_t cp = 1;            ///< divides the sequence
  uint32_t chunks = 1;        ///< of each stage
  uint32_t micro_batch = 1;   ///< sequences
  uint64_t global_batch = 1;  ///< sequences of an iteration
  PipelineSchedule schedule = PipelineSchedule::k1f1b;
  bool sequence_parallel = false;  ///< what tensor parallelism leaves whole is divided by tokens
  Recompute recompute = Recompute::kNone;
  uint32_t zero = 0;  ///< ZeRO's stage, arXiv 1910.02054; 1: Megatron's distributed optimizer
  uint32_t gradient_bytes = 4;  ///< of a gradient: 4 of fp32, 2 of bf16
  /// Buckets of gradients are reduced while the last backward goes on; else when the stage has computed
  /// everything, all of a chunk at once unless `bucket` says otherwise.
  bool overlap_gradients = true;
  /// With ZeRO: the first forward waits bucket by bucket for the weights; else for all of them.
  bool overlap_weights = false;
  /// Messages between stages go while these compute; else a stage waits until what it sends has left,
  /// and, without chunks, takes what comes only when it would work on it.
  bool overlap_pipeline = true;
  /// Parameters of a bucket, at least. 0: Megatron-LM's rule (bucket_parameters()).
  uint64_t bucket = 0;

  /// Of a stage: gradients are reduced over them, those of experts over replicas() / ep.
  uint32_t replicas() const { return dp * cp; }
  uint64_t gpus() const { return uint64_t{tp} * pp * replicas(); }
  /// What the rest takes for granted: the numbers divide.
  uint64_t micro_batches() const { return global_batch / (uint64_t{micro_batch} * dp); }
  bool operator==(const Parallel&) const = default;
};

/// A number that does not go with others.
struct Misfit {
  std::string table, key;  ///< of the configuration: "parallel", "tp"
  uint64_t found = 0;
  std::string why;  ///< in words: what does not divide what
};

/// Everything that does not divide, and what the schedule refuses; empty: all functions on a
/// Transformer and a Parallel may be called. All numbers are at least 1.
std::vector<Misfit> misfits(const Transformer& model, const Parallel& parallel);

/// The pipeline of one data-parallel rank.
Pipeline pipeline_of(const Parallel& parallel);
/// Layers of one chunk of one stage.
uint32_t chunk_layers(const Transformer& model, const Parallel& parallel);
/// Whether first and last stage each have the embedding that the output layer uses again.
bool has_tied_ends(const Transformer& model, const Parallel& parallel);
/// Of these the dense ones, which come first.
uint32_t dense_chunk_layers(const Transformer& model, const Parallel& parallel, uint32_t stage,
                            uint32_t chunk);
/// Kind of the chunk's layer `layer`.
LayerKind chunk_layer_kind(const Transformer& model, const Parallel& parallel, uint32_t stage,
                           uint32_t chunk, uint32_t layer);

/// Parameters of a GPU, undivided by ZeRO.
struct HeldParameters {
  uint64_t common = 0;   ///< the same on all replicas
  uint64_t experts = 0;  ///< the same on every ep-th one, if these are not all
  uint64_t all() const { return common + experts; }
  HeldParameters& operator+=(const HeldParameters& o) {
    common += o.common;
    experts += o.experts;
    return *this;
  }
};
HeldParameters held_layer(const Transformer& model, const Parallel& parallel, LayerKind kind);
/// Of a chunk's layers.
HeldParameters held_chunk(const Transformer& model, const Parallel& parallel, uint32_t stage,
                          uint32_t chunk);
/// Of this stage's layers.
HeldParameters held_layers(const Transformer& model, const Parallel& parallel, uint32_t stage);

/// What a GPU of this stage holds besides layers, undivided by ZeRO.
struct EndParameters {
  uint64_t first = 0;  ///< on the first stage: the embedding
  /// On the last one: the norm and the output layer, which is a copy of the embedding where these are
  /// tied and on different stages.
  uint64_t last = 0;
};
EndParameters end_parameters(const Transformer& model, const Parallel& parallel, uint32_t stage);
/// All that it holds, undivided by ZeRO.
HeldParameters held_parameters(const Transformer& model, const Parallel& parallel, uint32_t stage);
/// The sum.
uint64_t rank_parameters(const Transformer& model, const Parallel& parallel, uint32_t stage);

}  // namespace understudy
