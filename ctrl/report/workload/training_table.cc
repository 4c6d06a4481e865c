#include "ctrl/report/workload/training_table.h"

#include <algorithm>

#include "ctrl/report/text.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

std::string milliseconds(Duration time) { return format_text("%.3f", time.seconds() * 1e3); }

std::string how(const TrainingReport& training) {
  if (training.source == "packet") return "packet by packet";
  if (training.source == "given") return "as [operations] gives them";
  return training.source == "flow" ? "as max-min fair rates" : "by closed forms";
}

struct Column {
  const char* name;
  Duration IterationParts::*part;
};

/// Of parallelism that the job has.
std::vector<Column> columns(const TrainingReport& training) {
  std::vector<Column> out{{"compute", &IterationParts::compute},
                          {"TP", &IterationParts::tensor},
                          {"PP", &IterationParts::pipeline},
                          {"DP", &IterationParts::data}};
  if (training.ep > 1) out.push_back({"EP", &IterationParts::experts});
  if (training.cp > 1) out.push_back({"CP", &IterationParts::context});
  out.push_back({"bubble", &IterationParts::bubble});
  out.push_back({"slowest", &IterationParts::slowest});
  out.push_back({"optimizer", &IterationParts::optimizer});
  return out;
}

std::string parts_line(const std::string& name, const IterationParts& parts,
                       const std::vector<Column>& columns) {
  std::string text = format_text("# %-8s", name.c_str());
  for (const Column& column : columns) {
    text += format_text(" %11s", milliseconds(parts.*column.part).c_str());
  }
  return text + "\n";
}

std::string stretch_text(const CriticalStretch& stretch, const std::string& node) {
  const std::string stage = std::to_string(stretch.stage);
  const std::string where = "stage " + stage + ", replica " + std::to_string(stretch.replica) +
                            (node.empty() ? "" : " (" + node + ")");
  switch (stretch.what) {
    case CriticalStretch::What::kCompute:
      return "computing of " + where;
    case CriticalStretch::What::kTensor:
      return "tensor parallelism of " + where;
    case CriticalStretch::What::kPipeline:
      return "messages from stage " + stage + " to " + std::to_string(stretch.to);
    case CriticalStretch::What::kData:
      if (stretch.to != stretch.stage) return "gradients of the tied embedding";
      return "gradients and weights of stage " + stage;
    case CriticalStretch::What::kExperts:
      return "tokens of experts of stage " + stage;
    case CriticalStretch::What::kContext:
      return "keys and values of stage " + stage;
    case CriticalStretch::What::kNorm:
      return "norm of the gradients";
    case CriticalStretch::What::kOptimizer:
      break;
  }
  return "optimizer of stage " + stage;
}

std::string critical_lines(const TrainingReport& training, Duration took) {
  constexpr size_t kMost = 6;
  std::string text = "# critical path, what its end waited for:\n";
  for (size_t i = 0; i < std::min(kMost, training.critical.size()); ++i) {
    const CriticalStretch& stretch = training.critical[i];
    text += format_text("#   %5.1f %%  %s ms  ", stretch.length.seconds() / took.seconds() * 100,
                        milliseconds(stretch.length).c_str()) +
            stretch_text(stretch, training.critical_nodes[i]) + "\n";
  }
  if (training.critical.size() > kMost) {
    text += "#   and " + count_text(training.critical.size() - kMost, "shorter part") + "\n";
  }
  return text;
}

}  // namespace

std::string training_table(const TrainingReport& training) {
  const bool nodes = training.source != "given";
  std::string text =
      "# training: " + count_text(training.gpus, "GPU") +
      (nodes ? " on " + count_text(training.nodes, "node") : "") + ", TP " +
      std::to_string(training.tp) + ", PP " + std::to_string(training.pp) + ", DP " +
      std::to_string(training.dp) + (training.cp > 1 ? ", CP " + std::to_string(training.cp) : "") +
      (training.ep > 1 ? ", EP " + std::to_string(training.ep) : "") + ", " +
      std::to_string(training.micro_batches) +
      (training.micro_batches == 1 ? " micro-batch" : " micro-batches") +
      (nodes ? "; operations between nodes " : "; operations ") + how(training) + "\n";
  text += format_text("# %9s %12s %14s %14s %10s\n", "iteration", "time(ms)", "tokens/s",
                      "TFLOP/s a GPU", "of peak");
  for (size_t i = 0; i < training.iterations.size(); ++i) {
    const double seconds = training.iterations[i].took().seconds();
    if (seconds <= 0) continue;
    text += format_text("%11zu %12s %14.0f %14.1f %8.1f %%\n", i,
                        milliseconds(training.iterations[i].took()).c_str(),
                        static_cast<double>(training.tokens) / seconds,
                        training.flops / static_cast<double>(training.gpus) / seconds / 1e12,
                        training.flops / seconds / training.peak_flops * 100);
  }
  if (training.iterations.empty()) return text;
  const IterationResult& last = training.iterations.back();
  text += "# where the time of the last one went, in ms: computing, then what was waited for\n";
  const std::vector<Column> shown = columns(training);
  text += format_text("# %-8s", "stage");
  for (const Column& column : shown) text += format_text(" %11s", column.name);
  text += "\n";
  for (size_t stage = 0; stage < last.stages.size(); ++stage) {
    text += parts_line(std::to_string(stage), last.stages[stage].mean, shown);
  }
  text += parts_line("mean", last.mean, shown);
  text += critical_lines(training, last.took());
  return text;
}

}  // namespace understudy
