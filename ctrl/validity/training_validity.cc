// How far to trust the iterations of a [model].
#include <algorithm>

#include "collective_model/training/memory.h"
#include "ctrl/report/text.h"
#include "ctrl/validity/validity.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

}  // namespace

void add_training(ValidityLines& lines, const Config& config) {
  if (!config.training || !config.training->gpu) return;
  const TrainingConfig& training = *config.training;
  lines.add("roofline", "computing is a roofline: matrices reach " +
                            decimal_text(training.gpu->efficiency * 100, 1) +
                            " % of the GPU's peak, which is assumed ([gpu] efficiency)");
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

std::vector<ValidityLine> predicted_training_validity(const Config& config, bool drawn) {
  ValidityLines lines;
  add_training(lines, config);
  lines.add("closed-form",
            "operations of different stages, and gradients beside messages between stages, do not "
            "take each other's bandwidth (understudy simulate)");
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
  return lines.take(0);
}

}  // namespace understudy
