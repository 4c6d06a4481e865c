// The command line: understudy check | topo | schedule | predict | compare | fct | calibrate |
// feed | env | simulate | run | command | status | workload.
// Exit status: 0 work was done and was right,
// 2 bad configuration or input, 3 ran but not faithful, 1 anything else.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "ctrl/cli/commands.h"
#include "ctrl/config/suggest.h"
#include "ctrl/report/version.h"
#include "dataplane/base/output_file.h"

namespace understudy {
namespace {

/// The option or command that is not known, with the nearest one that is; empty if all are.
std::string mistake_of(const CLI::App& app) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  const CLI::App& command = *chosen;
  const std::vector<std::string> left = app.remaining(true);
  const auto option = std::ranges::find_if(
      left, [](const std::string& word) { return word.starts_with('-') && word != "--"; });
  if (option != left.end()) {
    const std::string name = option->substr(0, option->find('='));
    std::vector<std::string> known;
    for (const CLI::Option* o : command.get_options()) {
      for (const std::string& word : o->get_lnames()) known.push_back("--" + word);
    }
    return "unknown option \"" + name + "\"" + suggest(name, {known.begin(), known.end()});
  }
  std::vector<std::string> known;
  for (const CLI::App* c : command.get_subcommands({})) known.push_back(c->get_name());
  if (left.empty() || known.empty()) return "";
  return "unknown command \"" + left.front() + "\"" +
         suggest(left.front(), {known.begin(), known.end()});
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) {
  using namespace understudy;
  CLI::App app{"Emulates the rest of a training cluster towards one real RoCEv2 node."};
  app.set_version_flag("--version", std::string("understudy ") + kVersion);
  app.require_subcommand(1);
  app.footer("Example: understudy simulate configs/quickstart.toml --capture out.pcapng");
  int status = kExitFailed;
  add_check(app, status);
  add_capabilities(app, status);
  add_topo(app, status);
  add_schedule(app, status);
  add_predict(app, status);
  add_compare(app, status);
  add_fct(app, status);
  add_calibrate(app, status);
  add_feed(app, status);
  add_env(app, status);
  add_simulate(app, status);
  add_run(app, status);
  add_command(app, status);
  add_status(app, status);
  add_workload(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return finish_output("understudy", app.exit(e));
  } catch (const CLI::ParseError& e) {
    if (const std::string mistake = mistake_of(app); !mistake.empty()) {
      std::fprintf(stderr, "understudy: %s\nRun with --help for more information.\n",
                   mistake.c_str());
    } else {
      app.exit(e);
    }
    return kExitBadInput;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "understudy: this machine has not enough memory for it\n");
    status = kExitFailed;
  }
  return finish_output("understudy", status);
}
