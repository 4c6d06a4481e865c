#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "ctrl/cli/commands.h"
#include "ctrl/compile/environment/node_environment.h"

namespace understudy {

void add_env(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "env",
      "Prints the environment that NCCL needs on the real node, each setting with its reason");
  auto path = std::make_shared<std::string>();
  auto job = std::make_shared<std::string>();
  command->add_option("config", *path, "Configuration (TOML)")->required();
  command->add_option("--job", *job, "Of this job; default: the only one with a key join");
  command->footer("Example: understudy env configs/nccl.toml > node.env");
  command->callback([path, job, &status] {
    const auto config = load_with_model(*path);
    status = kExitBadInput;
    if (!config) return;
    const auto found = joined_job(*config, *job);
    if (!found) {
      std::fprintf(stderr, "%s\n", found.error().text.c_str());
      return;
    }
    std::fputs(node_environment(*config, **found).c_str(), stdout);
    status = kExitOk;
  });
}

}  // namespace understudy
