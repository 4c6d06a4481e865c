#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "ctrl/cli/commands.h"
#include "ctrl/compare/comparison.h"
#include "ctrl/compare/real_comparison.h"
#include "ctrl/compile/training/training_plan.h"

namespace understudy {
namespace {

struct CompareArguments {
  std::string config;
  bool no_flow = false, no_packets = false, json = false, quiet = false, real = false;
};

int run_compare_real(const Config& config, const CompareArguments& arguments) {
  std::function<void(const std::string&)> progress;
  if (!arguments.quiet) {
    progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  }
  const auto comparison = compare_real(config, progress);
  if (!comparison) {
    std::fprintf(stderr, "%s\n", comparison.error().text.c_str());
    return kExitBadInput;
  }
  const std::string text = arguments.json ? real_comparison_json(config, *comparison)
                                          : real_comparison_text(*comparison);
  std::fputs(text.c_str(), stdout);
  return comparison->wrong.empty() ? kExitOk : kExitNotFaithful;
}

int run_compare(const CompareArguments& arguments) {
  const auto config =
      arguments.real ? load_or_complain(arguments.config) : load_with_model(arguments.config);
  if (!config) return kExitBadInput;
  if (arguments.real) return run_compare_real(*config, arguments);
  if (config->jobs.empty() && config->traffic.empty() && !config->training && !config->workload) {
    std::fprintf(stderr, "%s: there is no [[job]], [[traffic]], [model] or [workload] to compare\n",
                 config->path.c_str());
    return kExitBadInput;
  }
  if (config->training) {
    if (const auto plan = plan_training(*config); !plan) {
      std::fprintf(stderr, "%s\n", plan.error().text.c_str());
      return kExitBadInput;
    }
  }
  const auto topology = given_topology(*config);
  CompareOptions options;
  options.flow = !arguments.no_flow;
  options.packets = !arguments.no_packets;
  if (!arguments.quiet) {
    options.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  }
  const auto comparison = compare(*config, topology ? &*topology : nullptr, options);
  if (!comparison) {
    std::fprintf(stderr, "%s\n", comparison.error().text.c_str());
    return kExitFailed;
  }
  const std::string text = arguments.json ? comparison_json(*config, *comparison)
                                          : comparison_text(*config, *comparison);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace

void add_compare(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "compare",
      "Runs the same configuration at three speeds, predict, flow and packets, and says where they "
      "differ and why");
  auto arguments = std::make_shared<CompareArguments>();
  command->add_option("config", arguments->config, "Configuration (TOML)")->required();
  command->add_flag("--no-flow", arguments->no_flow, "Leave out the run as flows");
  command->add_flag("--no-packets", arguments->no_packets, "Leave out the run packet by packet");
  command
      ->add_flag(
          "--real", arguments->real,
          "Instead: run its jobs in virtual time with every node real (reference nodes), and "
          "with its own real nodes among emulated ones, and print how far iterations differ, "
          "worst first")
      ->excludes("--no-flow")
      ->excludes("--no-packets");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_flag("--quiet", arguments->quiet, "No lines of progress");
  command->footer(
      "Example: understudy compare configs/emulated_ranks.toml\n"
      "         understudy compare --real configs/two_real_nodes.toml");
  command->callback([arguments, &status] { status = run_compare(*arguments); });
}

}  // namespace understudy
