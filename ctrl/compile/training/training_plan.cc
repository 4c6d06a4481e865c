#include "ctrl/compile/training/training_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ctrl/compile/gpus/ring_time.h"
#include "ctrl/compile/ways/node_way.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

Duration rounded(double seconds) { return Duration::ps(std::llround(seconds * 1e12)); }

ChunkTimes rounded(const ChunkSeconds& seconds) {
  return {rounded(seconds.forward), rounded(seconds.backward), rounded(seconds.weight_gradient)};
}

class Planner {
 public:
  explicit Planner(const Config& config)
      : config_(config),
        training_(*config.training),
        model_(training_.model),
        parallel_(training_.parallel) {}

  Result<TrainingPlan> run() {
    TRY(check());
    return made(config_.nodes.front().gpus);
  }

  Result<TrainingPlan> run_without_nodes() {
    TRY(check_gpu());
    TRY(check_steps());
    return made(parallel_.tp);
  }

 private:
  Result<TrainingPlan> made(uint32_t gpus_per_node) const {
    TrainingPlan plan;
    plan.places = TrainingPlaces(parallel_, gpus_per_node);
    plan.times = TRY(times(plan.places));
    plan.graph = iteration_graph(model_, parallel_, plan.times, training_.iterations);
    return plan;
  }

  Error error(unsigned line, const std::string& text) const {
    return {config_.path + ":" + std::to_string(line) + ": " + text};
  }
  tl::unexpected<Error> no(unsigned line, const std::string& text) const {
    return tl::unexpected(error(line, text));
  }

  Result<void> check_gpu() const {
    if (training_.gpu) return {};
    return no(training_.line,
              "model: its times need a [gpu]: a preset, or flops, memory and "
              "memory_bandwidth");
  }

  Result<void> check() const {
    TRY(check_gpu());
    if (training_.operations) {
      return no(training_.operations_line,
                "operations: what they take is given, and nothing is carried out on nodes: this is "
                "for predict alone");
    }
    TRY(check_nodes());
    TRY(check_steps());
    if (parallel_.tp > 1 && !node_way(config_)) {
      return no(
          training_.parallel_line,
          "parallel.tp: found " + std::to_string(parallel_.tp) +
              ": what GPUs of a node say to each other takes time: give [intra_node] gpu_link");
    }
    return {};
  }

  Result<void> check_nodes() const {
    if (config_.nodes.empty()) {
      return no(training_.line, "model: there is no [[node]] to carry it out on");
    }
    const uint32_t gpus = config_.nodes.front().gpus, tp = parallel_.tp;
    const uint32_t replicas = parallel_.replicas();
    const bool context = parallel_.cp > 1;
    if (gpus % tp != 0) {
      return no(training_.parallel_line,
                "parallel.tp: found " + std::to_string(tp) + ": it must divide the " +
                    std::to_string(gpus) +
                    " GPUs of a node: tensor parallelism stays within nodes");
    }
    const uint32_t together = gpus / tp;
    const auto alike = [&](const char* key, uint32_t found) -> Result<void> {
      if (found % together == 0 || together % found == 0) return {};
      return no(training_.parallel_line,
                "parallel." + std::string(key) + ": found " + std::to_string(found) +
                    ": a node has GPUs of " + std::to_string(together) +
                    " replicas: one of both must divide the other, so that all nodes have as many");
    };
    TRY(alike(context ? "dp * cp" : "dp", replicas));
    TRY(alike("cp", parallel_.cp));
    TRY(alike("ep", parallel_.ep));
    const uint64_t needed = (parallel_.gpus() + gpus - 1) / gpus;
    if (needed > config_.nodes.size()) {
      return no(training_.parallel_line,
                std::string("parallel: tp * pp * dp") + (context ? " * cp" : "") + " = " +
                    std::to_string(parallel_.gpus()) + " GPUs need " + std::to_string(needed) +
                    " nodes of " + std::to_string(gpus) + "; there are " +
                    std::to_string(config_.nodes.size()));
    }
    TRY(check_equal_nodes(config_, needed, "a [model]"));
    for (const auto& [node, factor] : training_.slow) {
      if (node < needed) continue;
      return no(training_.gpu_line, "gpu.slow: node \"" + config_.nodes[node].name +
                                        "\" has no part in the job, which takes the first " +
                                        std::to_string(needed));
    }
    return {};
  }

  Result<void> check_steps() const {
    constexpr uint64_t kMost = 50'000'000;
    uint64_t passes =
        parallel_.zero == 3 ? model_.layers : uint64_t{parallel_.pp} * parallel_.chunks;
    // Two operations of each layer's experts, and one of its keys.
    if (parallel_.ep > 1) passes += uint64_t{2} * model_.layers;
    if (parallel_.cp > 1) passes += model_.layers;
    const uint64_t steps =
        2 * passes * parallel_.micro_batches() * parallel_.replicas() * training_.iterations;
    if (steps <= kMost) return {};
    return no(training_.parallel_line, "parallel: all stages and replicas together have " +
                                           std::to_string(steps) + " steps; at most " +
                                           std::to_string(kMost) + " are carried out");
  }

  Result<IterationTimes> times(const TrainingPlaces& places) const {
    IterationTimes times;
    const TrainingGpu& gpu = *training_.gpu;
    double sum = 0;
    for (uint32_t stage = 0; stage < parallel_.pp; ++stage) {
      StageComputing& made = times.stages.emplace_back();
      const auto phases = stage_messages(model_, parallel_, stage);
      double own = optimizer_seconds(model_, parallel_, gpu, stage);
      made.optimizer = rounded(own);
      for (uint32_t chunk = 0; chunk < parallel_.chunks; ++chunk) {
        const ChunkSeconds all = chunk_seconds(model_, parallel_, gpu, stage, chunk);
        const ChunkSeconds layers = layer_seconds(model_, parallel_, gpu, stage, chunk);
        made.chunks.push_back(rounded(all));
        made.tensor.push_back(tensor_times(phases, chunk));
        const double backward = all.backward + all.weight_gradient;
        if (chunk + 1 == parallel_.chunks) {
          made.output_share = 1 - (layers.backward + layers.weight_gradient) / backward;
        }
        own += (all.forward + backward) * static_cast<double>(parallel_.micro_batches());
      }
      sum += own;
    }
    // All stages one after the other are longer than any iteration.
    constexpr double kMostSeconds = 2e6;
    double slowest = 1;
    for (const auto& [node, factor] : training_.slow) slowest = std::max(slowest, factor);
    if (sum * slowest * training_.iterations > kMostSeconds) {
      return no(training_.line, "model: the GPUs would compute for more than 23 days");
    }
    if (!training_.slow.empty()) add_slow(places, times);
    return times;
  }

  ChunkTimes tensor_times(const std::vector<MessagePhase>& phases, uint32_t chunk) const {
    ChunkTimes out;
    for (const MessagePhase& phase : phases) {
      const bool forward = phase.kind == MessagePhase::Kind::kForward;
      if ((!forward && phase.kind != MessagePhase::Kind::kBackward) || phase.chunk != chunk) {
        continue;
      }
      for (const TrainingMessage& message : phase.messages) {
        if (message.group != TrainingGroup::kTensor || message.beside) continue;
        const Duration one =
            training_.operations
                ? training_.operations->tensor.of(message.transfer, message.bytes, parallel_.tp)
                : inside_time(config_, message.transfer, message.bytes, parallel_.tp);
        (forward ? out.forward : out.backward) += one * static_cast<int64_t>(message.count);
      }
    }
    return out;
  }

  void add_slow(const TrainingPlaces& places, IterationTimes& times) const {
    times.slower.assign(parallel_.pp, std::vector<double>(parallel_.replicas(), 1));
    for (const auto& [node, factor] : training_.slow) {
      for (uint32_t stage = 0; stage < parallel_.pp; ++stage) {
        for (uint32_t replica = 0; replica < parallel_.replicas(); ++replica) {
          if (places.node(stage, replica) == node) times.slower[stage][replica] *= factor;
        }
      }
    }
  }

  const Config& config_;
  const TrainingConfig& training_;
  const Transformer& model_;
  const Parallel& parallel_;
};

}  // namespace

Result<TrainingPlan> plan_without_nodes(const Config& config) {
  return Planner(config).run_without_nodes();
}

Result<TrainingPlan> plan_training(const Config& config) { return Planner(config).run(); }

}  // namespace understudy
