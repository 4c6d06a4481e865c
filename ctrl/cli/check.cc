#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "ctrl/cli/commands.h"
#include "ctrl/config/kernel_nodes.h"

namespace understudy {

void add_check(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("check", "Names every error of a configuration");
  auto path = std::make_shared<std::string>();
  command->add_option("config", *path, "Configuration (TOML)")->required();
  command->footer("Example: understudy check configs/quickstart.toml");
  command->callback([path, &status] {
    const auto config = load_or_complain(*path);
    if (!config) {
      status = kExitBadInput;
      return;
    }
    if (const std::string why = why_no_kernels(*config); !why.empty()) {
      std::fprintf(stderr, "%s\n", why.c_str());
      status = kExitBadInput;
      return;
    }
    std::printf("%s: good: %zu nodes, %zu ports, %zu jobs, %zu services\n", path->c_str(),
                config->nodes.size(), config->ports.size(), config->jobs.size(),
                config->services.size());
    status = kExitOk;
  });
}

}  // namespace understudy
