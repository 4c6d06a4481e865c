#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "ctrl/cli/commands.h"
#include "ctrl/predict/prediction.h"
#include "ctrl/predict/trace_prediction.h"
#include "ctrl/predict/training_prediction.h"
#include "ctrl/report/workload/trace_table.h"
#include "ctrl/report/workload/training_table.h"

namespace understudy {
namespace {

struct PredictArguments {
  std::string config;
  bool why = false, json = false, strict = false;
};

int print_training(const Config& config, const PredictArguments& arguments,
                   const Result<TrainingReport>& prediction,
                   const std::vector<ValidityLine>& validity) {
  if (!prediction) {
    std::fprintf(stderr, "%s\n", prediction.error().text.c_str());
    return kExitBadInput;
  }
  const std::string text = arguments.json ? training_prediction_json(config, *prediction, validity)
                                          : training_table(*prediction) + validity_text(validity);
  std::fputs(text.c_str(), stdout);
  return strict_status(validity, arguments.strict, kExitOk);
}

int run_training(const Config& config, const PredictArguments& arguments) {
  if (config.training->operations) {
    return print_training(config, arguments, predict_given_operations(config),
                          given_operations_validity(config));
  }
  const auto topology = build_topology(config);
  if (!topology) {
    std::fputs(describe(topology.error()).c_str(), stderr);
    return kExitBadInput;
  }
  return print_training(config, arguments, predict_training(config, *topology),
                        training_validity(config, *topology));
}

int run_traces(const Config& config, const PredictArguments& arguments) {
  const auto topology = build_topology(config);
  if (!topology) {
    std::fputs(describe(topology.error()).c_str(), stderr);
    return kExitBadInput;
  }
  const auto prediction = predict_traces(config, *topology);
  if (!prediction) {
    std::fprintf(stderr, "%s\n", prediction.error().text.c_str());
    return kExitBadInput;
  }
  const std::vector<ValidityLine> validity = trace_validity(config, *topology, *prediction);
  const std::string text = arguments.json
                               ? trace_prediction_json(config, prediction->report, validity)
                               : trace_table(prediction->report) + validity_text(validity);
  std::fputs(text.c_str(), stdout);
  return strict_status(validity, arguments.strict, kExitOk);
}

int run_predict(const PredictArguments& arguments) {
  const auto config = load_with_model(arguments.config);
  if (!config || !lists_operations(*config, "predict")) return kExitBadInput;
  if (config->training || config->workload) {
    if (arguments.json && !config->jobs.empty()) {
      std::fprintf(
          stderr,
          "%s: --json is of a [model], a [workload] or of [[job]]s: give each a file of its own\n",
          config->path.c_str());
      return kExitBadInput;
    }
    const int status =
        config->workload ? run_traces(*config, arguments) : run_training(*config, arguments);
    if (status != kExitOk || config->jobs.empty()) return status;
  }
  if (config->jobs.empty()) {
    std::fprintf(stderr, "%s: there is no [[job]] to predict\n", config->path.c_str());
    return kExitBadInput;
  }
  const auto topology = given_topology(*config);
  const auto predictions = predict(*config, topology ? &*topology : nullptr);
  if (!predictions) {
    std::fputs(describe(predictions.error()).c_str(), stderr);
    return kExitBadInput;
  }
  const std::string text = arguments.json ? prediction_json(*config, *predictions)
                                          : prediction_text(*config, *predictions, arguments.why);
  std::fputs(text.c_str(), stdout);
  return strict_status(prediction_validity(*predictions), arguments.strict, kExitOk);
}

}  // namespace

void add_predict(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "predict", "Says what jobs would take, by closed forms, in nccl-tests' columns");
  auto arguments = std::make_shared<PredictArguments>();
  command->add_option("config", arguments->config, "Configuration (TOML)")->required();
  command->add_flag("--why", arguments->why,
                    "Also how NCCL chooses: the estimate for each algorithm and protocol");
  command->add_flag("--json", arguments->json, "Print JSON, the choices included");
  add_strict(*command, arguments->strict);
  command->footer("Example: understudy predict configs/predict.toml --why");
  command->callback([arguments, &status] { status = run_predict(*arguments); });
}

}  // namespace understudy
