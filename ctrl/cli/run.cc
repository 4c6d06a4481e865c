#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

#include "ctrl/cli/commands.h"
#include "ctrl/compile/capabilities.h"
#include "ctrl/config/units_text.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/run/control_socket.h"
#include "ctrl/run/live_run.h"
#include "ctrl/run/real_time.h"

namespace understudy {
namespace {

std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");

void on_signal(int number) { caught_signal = number; }

struct LiveArguments : RunArguments {
  std::string control, duration, linger;
  SeriesArguments series;
  bool verbose = false;
};

std::optional<Duration> duration_or_complain(const char* option, const std::string& text) {
  const auto duration = parse_duration(text);
  if (duration) return *duration;
  std::fprintf(stderr, "%s: %s\n", option, duration.error().text.c_str());
  return std::nullopt;
}

int run(const LiveArguments& arguments) {
  outlive_readers();
  const auto config = load_or_complain(arguments);
  if (!config) return kExitBadInput;
  const Asked asked{*config, !arguments.capture.empty(), arguments.series.wanted()};
  const auto events = commands_or_complain(*config, arguments.commands);
  if (!events) return kExitBadInput;
  const auto scenario = compile_scenario(asked, RunClock::kReal, *events);
  if (!scenario) {
    std::fprintf(stderr, "%s\n", scenario.error().text.c_str());
    return kExitBadInput;
  }
  LiveRunOptions options;
  int status = kExitBadInput;
  const auto series = series_or_complain(*scenario, arguments.series, status);
  if (!series) return status;
  status = outputs_or_complain(arguments, arguments.series);
  if (status != kExitOk) return status;
  options.series = *series;
  options.capture_path = arguments.capture;
  options.control_path = arguments.control;
  options.timeline = !arguments.timeline.empty();
  options.verbose = arguments.verbose;
  options.signal = &caught_signal;
  if (!arguments.duration.empty()) {
    options.duration = duration_or_complain("--duration", arguments.duration);
    if (!options.duration) return kExitBadInput;
  }
  if (!arguments.linger.empty()) {
    const auto linger = duration_or_complain("--linger", arguments.linger);
    if (!linger) return kExitBadInput;
    options.linger = *linger;
  }
  if (!arguments.quiet) {
    options.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  }
  if (const std::string why = why_no_real_time(); !why.empty()) {
    std::fprintf(stderr, "%s: %s\n", arguments.config.c_str(), why.c_str());
    return kExitFailed;
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  const auto report = run_live(*scenario, options);
  if (!report) {
    return finish_broken(report.error().text, arguments,
                         report.error().bad_input ? kExitBadInput : kExitFailed);
  }
  return finish_run(*report, arguments);
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("run", "Emulates in real time, with the real nodes on the ports");
  auto arguments = std::make_shared<LiveArguments>();
  add_run_arguments(*command, *arguments);
  command->add_option("--control", arguments->control,
                      "UNIX socket that takes live commands (see: understudy command)");
  command->add_option("--duration", arguments->duration, "Ends the run after this time, e.g. 30s");
  command->add_option(
      "--linger", arguments->linger,
      "Stays this long after the last job (default 200ms), e.g. so that captures in "
      "the real node can be stopped");
  add_series_arguments(*command, arguments->series, RunClock::kReal);
  command->add_flag("--verbose", arguments->verbose, "Also print DPDK's log");
  const std::string why_not = why_no_real_time();
  command->footer(
      (why_not.empty() ? why_not : "Note: " + why_not + ".\n") +
      "Without --duration a run ends when its jobs are done, by SIGINT or SIGTERM, when switches "
      "of its network have paused each other for ever, or when a job's message, or with "
      "flows.retries a flow, has given up.\n"
      "Example: understudy run configs/quickstart.toml --capture out.pcapng --report out.json");
  command->callback([arguments, &status] { status = run(*arguments); });
}

void add_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("command", "Sends a live command to a run");
  auto socket = std::make_shared<std::string>();
  auto text = std::make_shared<std::string>();
  command->add_option("socket", *socket, "The run's --control socket")->required();
  command->add_option("text", *text, "The command")->required();
  command->footer("Example: understudy command /tmp/control \"link gpu rate 50Mbit/s\"");
  command->callback([socket, text, &status] {
    const auto answer = send_command(*socket, *text);
    if (!answer) {
      std::fprintf(stderr, "%s\n", answer.error().text.c_str());
      status = kExitFailed;
      return;
    }
    const bool good = answer->rfind("ok:", 0) == 0;
    std::fprintf(good ? stdout : stderr, "%s\n", answer->c_str());
    status = good ? kExitOk : kExitBadInput;
  });
}

}  // namespace understudy
