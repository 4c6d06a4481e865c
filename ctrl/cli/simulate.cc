#include "ctrl/session/simulate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>

#include "ctrl/build/collective.h"
#include "ctrl/cli/commands.h"
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

std::string why_not(const Config& config) {
  const std::string why = why_no_kernels(config);
  return why.empty() ? why_not_simulated(config) : why;
}

/// What only runs without kernels know; empty if nothing was asked for.
std::string not_with_kernels(bool series, bool feed) {
  if (series) return "--series, --plot: a run with kernels takes no samples";
  return feed ? "--feed: a run with kernels has feeds of its own, by TCP" : "";
}

}  // namespace

void add_simulate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "simulate",
      "Runs the jobs in virtual time with reference nodes as the real ones, or Linux kernels with "
      "programs of their own, or both; or, without real nodes, jobs of emulated ranks and "
      "[[traffic]] packet by packet");
  auto arguments = std::make_shared<RunArguments>();
  auto series = std::make_shared<SeriesArguments>();
  auto feed = std::make_shared<std::string>(), patience = std::make_shared<std::string>("60s");
  add_run_arguments(*command, *arguments);
  add_series_arguments(*command, *series);
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
    const auto config = load_or_complain(*arguments, why_not);
    if (!config) return;
    if (!has_kernels(*config) && (config->jobs.empty() || all_emulated(*config)) &&
        !arguments->capture.empty()) {
      std::fputs("--capture: only a [[job]] with a real node has frames to write\n", stderr);
      return;
    }
    const auto fed = std::ranges::count_if(
        config->jobs, [](const JobConfig& job) { return job.operations == OperationsMode::kFed; });
    if (!feed->empty() && fed != 1) {
      std::fprintf(stderr, "--feed: it is of one job with operations = \"fed\", %s has %ld\n",
                   arguments->config.c_str(), static_cast<long>(fed));
      return;
    }
    const auto events = commands_or_complain(*config, arguments->commands);
    if (!events) return;
    const auto sampled = series_or_complain(*config, *series, status);
    if (!sampled) return;
    SimulateOptions options;
    const auto longest = parse_duration(*patience);
    if (!longest || *longest < Duration::ms(1) || *longest > Duration::s(86'400)) {
      std::fprintf(stderr, "--patience: %s\n",
                   longest ? "expected 1ms to a day" : longest.error().text.c_str());
      return;
    }
    options.patience_ms = static_cast<int>(longest->ps() / Duration::ms(1).ps());
    if (has_kernels(*config)) {
      const std::string unknown = not_with_kernels(sampled->wanted(), !feed->empty());
      if (!unknown.empty()) {
        std::fprintf(stderr, "%s\n", unknown.c_str());
        status = kExitBadInput;
        return;
      }
      end_kernels_by_signals();
      options.signal = &caught_signal;
    }
    options.series = *sampled;
    options.feed_path = *feed;
    options.capture_path = arguments->capture;
    options.timeline = !arguments->timeline.empty();
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
    if (arguments->quiet) return;
    if (!series->series.empty()) std::printf("series: %s\n", series->series.c_str());
    if (!series->plot.empty()) std::printf("plot: %s\n", series->plot.c_str());
  });
}

}  // namespace understudy
