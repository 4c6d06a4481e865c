#include "ctrl/session/simulate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "ctrl/build/collective.h"
#include "ctrl/cli/commands.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/session/kernel_run.h"

namespace understudy {

void add_simulate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "simulate",
      "Runs the jobs in virtual time with a reference node as the real one; or, without a real "
      "node, jobs of emulated ranks and [[traffic]] packet by packet");
  auto arguments = std::make_shared<RunArguments>();
  auto series = std::make_shared<SeriesArguments>();
  auto feed = std::make_shared<std::string>();
  add_run_arguments(*command, *arguments);
  add_series_arguments(*command, *series);
  command
      ->add_option("--feed", *feed,
                   "What the feed of the job with operations = \"fed\" tells: a file of "
                   "understudy feed --record. Default: what the reference node does")
      ->check(CLI::ExistingFile);
  command->footer(
      "Example: understudy simulate configs/quickstart.toml --report out.json\n"
      "         understudy simulate configs/oversubscribed.toml --series out.csv --plot out.svg");
  command->callback([arguments, series, feed, &status] {
    status = kExitBadInput;
    const auto config = load_or_complain(*arguments, why_not_simulated);
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
