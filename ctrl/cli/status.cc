#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "ctrl/cli/commands.h"
#include "ctrl/run/control_socket.h"

namespace understudy {

void add_status(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("status", "Says how far a run is and what its emulated ranks wait for");
  auto socket = std::make_shared<std::string>();
  command->add_option("socket", *socket, "The run's --control socket")->required();
  command->footer("Example: understudy status /tmp/control");
  command->callback([socket, &status] {
    const auto answer = send_command(*socket, "status");
    if (!answer) {
      std::fprintf(stderr, "%s\n", answer.error().text.c_str());
      status = kExitFailed;
      return;
    }
    std::printf("%s\n", answer->c_str());
    status = kExitOk;
  });
}

}  // namespace understudy
