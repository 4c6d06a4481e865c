// How far to trust the iterations of a [model].
#include <algorithm>

#include "collective_model/training/memory.h"
#include "collective_model/training/messages.h"
#include "ctrl/report/text.h"
#include "ctrl/validity/validity.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// What predictions leave out besides.
void add_predicted(ValidityLines& lines, const Config& config, bool drawn) {
  const char* beside = !config.events.empty()    ? "[[event]]s"
                       : !config.traffic.empty() ? "[[traffic]]"
                       : !config.jobs.empty()    ? "[[job]]s"
                                                 : nullptr;
  if (beside != nullptr) {
    lines.add("alone", std::string(beside) + " are not in these times (understudy simulate)");
  }
  if (drawn) {
    lines.add("one-seed", "drawn once, from seed " + std::to_string(config.seed) +
                              ": paths by hash; other seeds, and runs, have others");
  }
}

bool has_layers_beside_tokens(const Parallel& parallel) {
  return parallel.zero == 3 && (parallel.ep > 1 || parallel.cp > 1);
}

/// Measured: 3 to 18 % of an iteration (docs/guides/training.md).
void add_experts(ValidityLines& lines, const Config& config) {
  const Parallel& parallel = config.training->parallel;
  if (has_layers_beside_tokens(parallel)) {
    lines.add(
        "beyond-closed-form",
        "weights and gradients of zero = 3 go beside tokens of experts or keys, and take each "
        "other's bandwidth (understudy simulate)");
  }
  const bool in_node =
      !config.nodes.empty() && config.nodes.front().gpus / parallel.tp >= parallel.ep;
  if (parallel.ep == 1 || in_node) return;
  constexpr double kFewPackets = 16;
  const double packets =
      routed_bytes(config.training->model, parallel) / parallel.ep / config.fabric.mtu;
  if (packets >= kFewPackets) return;
  lines.add(
      "beyond-closed-form",
      format_text("each expert's GPU gets %.1f packets of another one at a time; the closed form "
                  "takes them for a stream (understudy simulate)",
                  packets));
}

}  // namespace

void add_training(ValidityLines& lines, const Config& config) {
  if (!config.training || !config.training->gpu) return;
  const TrainingConfig& training = *config.training;
  const TrainingGpu& gpu = *training.gpu;
  const std::string reach = "matrices reach " + decimal_text(gpu.efficiency * 100, 1) +
                            " % of the GPU's peak, which is assumed ([gpu] efficiency)" +
                            (training.model.experts > 0 ? "; all experts get as many tokens" : "");
  if (!gpu.layer) {
    lines.add("roofline", "computing is a roofline: " + reach);
  } else {
    lines.add("given-times", "layers compute as long as [gpu] says");
    if (!gpu.output && training.model.vocabulary > 0) {
      lines.add("roofline", "the output layer is a roofline: " + reach);
    }
  }
  double most = 0;
  uint32_t fullest = 0;
  for (uint32_t stage = 0; stage < training.parallel.pp; ++stage) {
    const double all = stage_memory(training.model, training.parallel, stage).all();
    if (all > most) fullest = stage;
    most = std::max(most, all);
  }
  const auto there = static_cast<double>(training.gpu->memory);
  if (most <= there) return;
  lines.add("memory", format_text("the job does not fit: stage %u needs %.1f GiB, a GPU has %.1f "
                                  "(understudy workload show)",
                                  fullest, most / kGiB, there / kGiB));
}

void add_traces(ValidityLines& lines, const Config& config) {
  if (!config.workload) return;
  lines.add("rings",
            "collectives are NCCL's rings with the Simple protocol, or sends to all: NCCL takes "
            "trees and LL for small ones");
  lines.add("recorded", config.workload->system
                            ? "computing is what the traces and the system file say of it"
                            : "computing takes what the traces have recorded, on their own GPUs");
}

void add_training_rates(ValidityLines& lines, const Config& config) {
  if (!config.training || !has_layers_beside_tokens(config.training->parallel)) return;
  lines.add("beyond-closed-form",
            "weights and gradients of zero = 3 go beside tokens of experts or keys: rates share "
            "links evenly, messages that wait for each other do not (understudy simulate)");
}

std::vector<ValidityLine> given_training_validity(const Config& config) {
  ValidityLines lines;
  add_training(lines, config);
  lines.add("given-operations",
            "operations take what [operations] says, whatever else goes on at the same time");
  return lines.take(0);
}

std::vector<ValidityLine> predicted_training_validity(const Config& config, bool drawn) {
  ValidityLines lines;
  add_training(lines, config);
  lines.add(
      "closed-form",
      "operations of different stages, and gradients beside messages between stages, tokens of "
      "experts or keys, do not take each other's bandwidth (understudy simulate)");
  add_experts(lines, config);
  add_predicted(lines, config, drawn);
  return lines.take(0);
}

std::vector<ValidityLine> predicted_trace_validity(const Config& config, bool drawn,
                                                   double contended) {
  ValidityLines lines;
  add_traces(lines, config);
  lines.add("closed-form",
            "communicators with the same operations share the network; others do not take each "
            "other's bandwidth (understudy simulate)");
  constexpr double kLittle = 0.01;
  if (contended > kLittle) {
    lines.add("contention", "for " + decimal_text(contended * 100, 1) +
                                " % of the time different communicators' operations are on their "
                                "way by one NIC, and each is counted as if it had it alone "
                                "(understudy simulate --fidelity flow)");
  }
  add_predicted(lines, config, drawn);
  return lines.take(0);
}

}  // namespace understudy
