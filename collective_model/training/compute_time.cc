#include "collective_model/training/compute_time.h"

#include <algorithm>
#include <cmath>

#include "collective_model/training/memory.h"

namespace understudy {
namespace {

struct GpuPreset {
  std::string_view name;
  TrainingGpu gpu;
};

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr GpuPreset kGpuPresets[] = {
    {"a100", {.flops = 312e12, .memory = 80 * kGiB, .memory_bandwidth = 2.039e12}},
    {"h100", {.flops = 989e12, .memory = 80 * kGiB, .memory_bandwidth = 3.35e12}},
};

/// FLOPs and bytes of a pass on one GPU.
struct PassWork {
  double flops = 0;
  double bytes = 0;
};

double seconds(const PassWork& work, const TrainingGpu& gpu) {
  return std::max(work.flops / (gpu.flops * gpu.efficiency), work.bytes / gpu.memory_bandwidth);
}

/// Of values that are computed one by one.
double value_seconds(double bytes, const TrainingGpu& gpu) {
  return bytes / (gpu.memory_bandwidth * gpu.memory_efficiency);
}

ChunkSeconds given(const GivenTimes& one, double times) {
  return {times * one.forward, times * (one.backward - one.weight_gradient),
          times * one.weight_gradient};
}

/// What a GPU has of a layer's products with one sequence.
double share_of(const Parallel& parallel) {
  return parallel.micro_batch / (static_cast<double>(parallel.tp) * parallel.cp);
}

/// Of the output layer and the loss.
ChunkSeconds of_output(const Transformer& model, const Parallel& parallel, const TrainingGpu& gpu) {
  if (model.vocabulary == 0) return {};
  if (gpu.output) return given(*gpu.output, 1);
  const double share = share_of(parallel);
  const double flops = output_flops(model) * share;
  const double words = static_cast<double>(model.vocabulary) * model.hidden / parallel.tp;
  const double logits = 4.0 * model.vocabulary * model.sequence * share;
  const double one = seconds({flops, kTrainedValueBytes * words + logits}, gpu);
  return {one, one, seconds({flops, logits + parallel.gradient_bytes * words}, gpu)};
}

Duration rounded(double seconds) { return Duration::ps(std::llround(seconds * 1e12)); }

}  // namespace

std::vector<std::string_view> gpu_presets() {
  std::vector<std::string_view> names;
  for (const GpuPreset& preset : kGpuPresets) names.push_back(preset.name);
  return names;
}

std::optional<TrainingGpu> find_gpu(std::string_view name) {
  const auto* preset = std::ranges::find(kGpuPresets, name, &GpuPreset::name);
  if (preset == std::end(kGpuPresets)) return std::nullopt;
  return preset->gpu;
}

namespace {

ChunkSeconds of_layers(const Transformer& model, const Parallel& parallel, const TrainingGpu& gpu,
                       LayerKind kind, double layers) {
  if (gpu.layer) return given(*gpu.layer, layers);
  const LayerFlops flops = layer_flops(model, kind);
  const double share = share_of(parallel);
  const double matrices = flops.matrices * share,
               scores = flops.scores * share * (model.fused_attention ? 0.5 : 1);
  const double parameters = static_cast<double>(held_layer(model, parallel, kind).all());
  const double weights = kTrainedValueBytes * parameters;
  const auto [kept, kept_scores] = layer_values(model, parallel, kind);
  const double values = value_seconds(2 * (kept + kept_scores), gpu);
  const double forward = seconds({matrices + scores, weights + kept}, gpu) + values;
  double again = 0;
  if (parallel.recompute == Recompute::kSelective && !model.fused_attention) {
    again = seconds({scores, 0}, gpu) + value_seconds(2 * kept_scores, gpu);
  }
  if (parallel.recompute == Recompute::kFull) again = forward;
  // A fused kernel computes scores once more on its way back, as it keeps none.
  const double twice = model.fused_attention ? 2.5 * scores : 2 * scores;
  return {.forward = layers * forward,
          .backward =
              layers * (again + 2 * values + seconds({matrices + twice, weights + 2 * kept}, gpu)),
          .weight_gradient =
              layers * seconds({matrices, kept + parallel.gradient_bytes * parameters}, gpu)};
}

}  // namespace

ChunkSeconds layer_seconds(const Transformer& model, const Parallel& parallel,
                           const TrainingGpu& gpu, uint32_t stage, uint32_t chunk) {
  const uint32_t dense = dense_chunk_layers(model, parallel, stage, chunk);
  const uint32_t others = chunk_layers(model, parallel) - dense;
  ChunkSeconds sum;
  if (dense > 0) sum = of_layers(model, parallel, gpu, LayerKind::kDense, dense);
  if (others == 0) return sum;
  const ChunkSeconds more = of_layers(model, parallel, gpu, LayerKind::kExperts, others);
  return {sum.forward + more.forward, sum.backward + more.backward,
          sum.weight_gradient + more.weight_gradient};
}

ChunkSeconds chunk_seconds(const Transformer& model, const Parallel& parallel,
                           const TrainingGpu& gpu, uint32_t stage, uint32_t chunk) {
  ChunkSeconds sum = layer_seconds(model, parallel, gpu, stage, chunk);
  if (stage + 1 == parallel.pp && chunk + 1 == parallel.chunks) {
    const ChunkSeconds output = of_output(model, parallel, gpu);
    sum.forward += output.forward;
    sum.backward += output.backward;
    sum.weight_gradient += output.weight_gradient;
  }
  return sum;
}

double optimizer_seconds(const Transformer& model, const Parallel& parallel, const TrainingGpu& gpu,
                         uint32_t stage) {
  HeldParameters held = held_parameters(model, parallel, stage);
  double known = 0;
  if (gpu.layer_optimizer) {
    const HeldParameters layers = held_layers(model, parallel, stage);
    held.common -= layers.common;
    held.experts -= layers.experts;
    known = model.layers / static_cast<double>(parallel.pp) * *gpu.layer_optimizer;
  }
  const double common = parallel.zero > 0 ? parallel.replicas() : 1;
  const double experts = parallel.zero > 0 ? parallel.replicas() / parallel.ep : 1;
  const double own =
      static_cast<double>(held.common) / common + static_cast<double>(held.experts) / experts;
  constexpr double kStates = 12;  // each read and written
  return known +
         own * (parallel.gradient_bytes + 2 * kStates + kTrainedValueBytes) / gpu.memory_bandwidth;
}

Result<ComputeTime> compute_time(const Transformer& model, const Parallel& parallel,
                                 const TrainingGpu& gpu) {
  constexpr double kMostSeconds = 4e6;  // of a stage; picoseconds in 64 bits last for 9e6
  PipelineTimes times;
  ComputeTime result;
  for (uint32_t stage = 0; stage < parallel.pp; ++stage) {
    const double optimizer = optimizer_seconds(model, parallel, gpu, stage);
    double sum = optimizer;
    std::vector<ChunkSeconds> chunks;
    for (uint32_t chunk = 0; chunk < parallel.chunks; ++chunk) {
      const ChunkSeconds own = chunk_seconds(model, parallel, gpu, stage, chunk);
      sum += (own.forward + own.backward + own.weight_gradient) *
             static_cast<double>(parallel.micro_batches());
      chunks.push_back(own);
    }
    if (!(sum < kMostSeconds)) return fail("a GPU would compute for more than 46 days");
    for (const ChunkSeconds& own : chunks) {
      times.chunks.push_back(
          {rounded(own.forward), rounded(own.backward), rounded(own.weight_gradient)});
    }
    result.optimizer = std::max(result.optimizer, rounded(optimizer));
  }
  const auto timeline = time_pipeline(pipeline_of(parallel), times);
  if (!timeline) return tl::unexpected(timeline.error());
  result.pipeline = timeline->makespan;
  double busy = 0;
  for (const StageTimeline& stage : timeline->stages) {
    result.busiest = std::max(result.busiest, stage.busy);
    busy += stage.busy.seconds();
  }
  const double available = timeline->makespan.seconds() * parallel.pp;
  result.bubble = available > 0 ? 1 - busy / available : 0;
  return result;
}

}  // namespace understudy
