// The command line: understudy check | topo | schedule | predict | compare | fct | calibrate |
// feed | env | simulate | run | command | status.
// Exit status: 0 work was done and was right,
// 2 bad configuration or input, 3 ran but not faithful, 1 anything else.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "ctrl/cli/commands.h"
#include "ctrl/report/version.h"
#include "dataplane/base/output_file.h"

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
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return finish_output("understudy", app.exit(e));
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    return kExitBadInput;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "understudy: this machine has not enough memory for it\n");
    status = kExitFailed;
  }
  return finish_output("understudy", status);
}
