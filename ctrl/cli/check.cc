#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "ctrl/cli/commands.h"
#include "ctrl/compile/checks/memory.h"
#include "ctrl/compile/scenario.h"
#include "ctrl/config/job_operation.h"

namespace understudy {

void add_check(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("check", "Names every error of a configuration");
  auto path = std::make_shared<std::string>();
  command->add_option("config", *path, "Configuration (TOML)")->required();
  command->footer(
      "A configuration is bad if none of simulate, run, predict, topo and workload show can do "
      "anything with it.\n"
      "Example: understudy check configs/quickstart.toml");
  command->callback([path, &status] {
    status = kExitBadInput;
    const auto config = load_with_model(*path);
    if (!config) return;
    if (config->training && config->nodes.empty()) {
      std::printf("%s: good: a training job on %llu GPUs without nodes, for workload show %s\n",
                  path->c_str(), static_cast<unsigned long long>(config->training->parallel.gpus()),
                  config->training->operations ? "and predict" : "only");
      status = kExitOk;
      return;
    }
    // Networks that have no model but in closed form are for predict.
    const bool predicted = all_emulated(*config) && !why_not({*config}, RunClock::kVirtual).empty();
    const auto simulated = compile_scenario({*config}, RunClock::kVirtual);
    const bool real = !config->ports.empty();
    const bool network_alone =
        !simulated && simulated.error().text == nothing_to_run(*config, RunClock::kVirtual) &&
        config->services.empty() && config->clients.empty();
    std::string refused;  // by run
    if (real || !simulated) {
      const auto live = compile_scenario({*config}, RunClock::kReal);
      if (!live) refused = live.error().text;
      if (!simulated && !predicted && !live && !network_alone) {
        std::fprintf(stderr, "%s\n", simulated.error().text.c_str());
        return;
      }
    }
    std::printf("%s: good: %zu nodes, %zu ports, %zu jobs, %zu services\n", path->c_str(),
                config->nodes.size(), config->ports.size(), config->jobs.size(),
                config->services.size());
    if (config->training) {
      std::printf("and a training job on %llu GPUs\n",
                  static_cast<unsigned long long>(config->training->parallel.gpus()));
    }
    if (config->workload) std::printf("and a [workload] of traces\n");
    if (!simulated && predicted) {
      std::printf("for predict only: simulate says: %s\n", simulated.error().text.c_str());
    } else if (network_alone && !refused.empty()) {
      std::printf("for topo only: simulate says: %s\n", simulated.error().text.c_str());
    } else if (!simulated) {
      std::printf("for run only: simulate says: %s\n", simulated.error().text.c_str());
    } else if (!refused.empty()) {
      std::printf("for simulate only: run says: %s\n", refused.c_str());
    }
    if (const auto fits = check_memory(*config); simulated && !fits) {
      std::printf("not for this machine: %s\n", fits.error().text.c_str());
    }
    status = kExitOk;
  });
}

void add_capabilities(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "capabilities", "Prints what goes with what in simulate and run, as Markdown");
  command->footer("Example: understudy capabilities > capabilities.md");
  command->callback([&status] {
    std::fputs(capabilities_text().c_str(), stdout);
    status = kExitOk;
  });
}

}  // namespace understudy
