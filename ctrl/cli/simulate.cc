#include "ctrl/session/simulate.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "ctrl/cli/commands.h"

namespace understudy {

void add_simulate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Runs the jobs in virtual time with a reference node as the real one");
  auto arguments = std::make_shared<RunArguments>();
  add_run_arguments(*command, *arguments);
  command->footer("Example: understudy simulate configs/quickstart.toml --report out.json");
  command->callback([arguments, &status] {
    status = kExitBadInput;
    const auto config = load_or_complain(*arguments);
    if (!config) return;
    const auto events = commands_or_complain(*config, arguments->commands);
    if (!events) return;
    SimulateOptions options;
    options.capture_path = arguments->capture;
    options.commands = *events;
    if (!arguments->quiet) {
      options.progress = [](const std::string& line) {
        std::fprintf(stderr, "%s\n", line.c_str());
      };
    }
    const auto report = simulate(*config, options);
    if (!report) {
      std::fprintf(stderr, "%s\n", report.error().text.c_str());
      status = kExitFailed;
      return;
    }
    status = finish_run(*report, *arguments);
  });
}

}  // namespace understudy
