#include "ctrl/run/simulate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>

#include "ctrl/cli/commands.h"
#include "ctrl/compile/checks/memory.h"
#include "ctrl/compile/scenario.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");

/// A run with kernels ends them, closes its capture and reports; a second signal ends us at once.
void end_kernels_by_signals() {
  struct sigaction action {};
  action.sa_handler = [](int number) { caught_signal = number; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

/// Compiles with all options; prints what is wrong with them. Nothing on errors.
std::optional<Scenario> scenario_or_complain(const Config& config, const RunArguments& arguments,
                                             const SeriesArguments& series,
                                             const std::string& feed) {
  const auto events = commands_or_complain(config, arguments.commands);
  if (!events) return std::nullopt;
  const Asked asked{config, !arguments.capture.empty(), series.wanted(), !feed.empty()};
  auto scenario = compile_scenario(asked, RunClock::kVirtual, *events);
  if (!scenario) {
    std::fprintf(stderr, "%s\n", scenario.error().text.c_str());
    return std::nullopt;
  }
  const auto fed = std::ranges::count_if(
      config.jobs, [](const JobConfig& job) { return job.operations == OperationsMode::kFed; });
  if (!feed.empty() && fed != 1) {
    std::fprintf(stderr, "--feed: it is of one job with operations = \"fed\", %s has %ld\n",
                 arguments.config.c_str(), static_cast<long>(fed));
    return std::nullopt;
  }
  return std::move(*scenario);
}

std::optional<int> patience_or_complain(const std::string& text) {
  const auto longest = parse_duration(text);
  if (longest && *longest >= Duration::ms(1) && *longest <= Duration::s(86'400)) {
    return static_cast<int>(longest->ps() / Duration::ms(1).ps());
  }
  std::fprintf(stderr, "--patience: %s\n",
               longest ? "expected 1ms to a day" : longest.error().text.c_str());
  return std::nullopt;
}

}  // namespace

void add_simulate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "simulate",
      "Runs the jobs in virtual time with reference nodes as the real ones, or Linux kernels with "
      "programs of their own, or both; or, without real nodes, jobs of emulated ranks and "
      "[[traffic]] packet by packet or as rates");
  auto arguments = std::make_shared<RunArguments>();
  auto series = std::make_shared<SeriesArguments>();
  auto feed = std::make_shared<std::string>(), patience = std::make_shared<std::string>("60s");
  add_run_arguments(*command, *arguments);
  add_series_arguments(*command, *series, RunClock::kVirtual);
  command
      ->add_option("--feed", *feed,
                   "What the feed of the job with operations = \"fed\" tells: a file of "
                   "understudy feed --record. Default: what the reference node does")
      ->check(CLI::ExistingFile);
  command
      ->add_option(
          "--patience", *patience,
          "Of nodes of kind \"kernel\": the longest that one may compute without a word, in "
          "this machine's time")
      ->capture_default_str();
  command->footer(
      "Example: understudy simulate configs/quickstart.toml --report out.json\n"
      "         understudy simulate configs/oversubscribed.toml --series out.csv --plot out.svg\n"
      "         understudy simulate configs/kernel_node.toml --capture out.pcapng");
  command->callback([arguments, series, feed, patience, &status] {
    status = kExitBadInput;
    outlive_readers();
    const auto config = load_or_complain(*arguments);
    if (!config) return;
    const auto scenario = scenario_or_complain(*config, *arguments, *series, *feed);
    if (!scenario) return;
    if (const auto fits = check_memory(*config); !fits) {
      std::fprintf(stderr, "%s\n", fits.error().text.c_str());
      status = kExitFailed;
      return;
    }
    const auto sampled = series_or_complain(*scenario, *series, status);
    if (!sampled) return;
    status = outputs_or_complain(*arguments, *series);
    if (status != kExitOk) return;
    status = kExitBadInput;
    SimulateOptions options;
    options.capture_path = arguments->capture;
    options.timeline = !arguments->timeline.empty();
    options.feed_path = *feed;
    options.series = *sampled;
    const auto longest = patience_or_complain(*patience);
    if (!longest) return;
    options.patience_ms = *longest;
    if (has_kernels(*config)) {
      end_kernels_by_signals();
      options.signal = &caught_signal;
    }
    if (!arguments->quiet) {
      options.progress = [](const std::string& line) {
        std::fprintf(stderr, "%s\n", line.c_str());
      };
    }
    const auto report = simulate(*scenario, options);
    if (!report) {
      status = finish_broken(report.error().text, *arguments, kExitFailed);
      return;
    }
    status = finish_run(*report, *arguments);
    if (arguments->quiet) return;
    if (!series->series.empty()) std::printf("series: %s\n", series->series.c_str());
    if (!series->plot.empty()) std::printf("plot: %s\n", series->plot.c_str());
  });
}

}  // namespace understudy
