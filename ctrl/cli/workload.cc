#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "ctrl/cli/commands.h"
#include "ctrl/training/training_summary.h"

namespace understudy {
namespace {

struct ShowArguments {
  std::string config;
  bool json = false;
};

int show(const ShowArguments& arguments) {
  const auto config = load_with_model(arguments.config);
  if (!config) return kExitBadInput;
  if (!config->training) {
    std::fprintf(stderr, "%s: there is no [model] to show\n", config->path.c_str());
    return kExitBadInput;
  }
  const auto summary = summarize(*config->training);
  if (!summary) {
    std::fprintf(stderr, "%s:%u: model: %s\n", config->path.c_str(), config->training->line,
                 summary.error().text.c_str());
    return kExitBadInput;
  }
  const std::string text =
      arguments.json ? training_json(*config, *summary) : training_text(*config, *summary);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace

void add_workload(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("workload", "Says what a training job amounts to");
  constexpr const char* kExample =
      "Example: understudy workload show configs/training/llama2_70b.toml";
  command->footer(kExample);
  command->require_subcommand(1);
  CLI::App* shown = command->add_subcommand(
      "show", "Parameters, FLOPs, memory, messages and computing of a [model], without a network");
  auto arguments = std::make_shared<ShowArguments>();
  shown->add_option("config", arguments->config, "Configuration (TOML)")->required();
  shown->add_flag("--json", arguments->json, "Print JSON");
  shown->footer(kExample);
  shown->callback([arguments, &status] { status = show(*arguments); });
  add_workload_simai(*command, status);
  add_workload_traces(*command, status);
  add_workload_import(*command, status);
  add_workload_partition(*command, status);
  add_workload_export(*command, status);
  add_workload_resize(*command, status);
}

}  // namespace understudy
