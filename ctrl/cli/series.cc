#include <CLI/CLI.hpp>
#include <cstdio>

#include "ctrl/cli/commands.h"
#include "ctrl/config/units_text.h"
#include "ctrl/report/gnuplot.h"
#include "ctrl/report/series_file.h"
#include "ctrl/session/switched_run.h"
#include "ctrl/session/traffic_run.h"

namespace understudy {

void add_series_arguments(CLI::App& command, SeriesArguments& arguments) {
  command.add_option(
      "--series", arguments.series,
      "Write queues and throughput of links, rates of flows and of queue pairs over time to this "
      "file (CSV)");
  command.add_option("--series-interval", arguments.interval,
                     "Virtual time from one sample to the next (default 10us)");
  command
      .add_option("--series-links", arguments.links,
                  "Only links of these names, e.g. \"leaf0 -> *\"; can be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--series-flows", arguments.flows,
                  "Only flows and queue pairs of these names, e.g. \"incast *\"; can be repeated")
      ->allow_extra_args(false);
  command.add_option("--plot", arguments.plot,
                     "Draw the busiest links and senders over time: *.svg or *.png by gnuplot");
}

std::optional<SeriesOptions> series_or_complain(const Config& config,
                                                const SeriesArguments& arguments, int& status) {
  status = kExitBadInput;
  const auto complain = [](const std::string& text) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return std::nullopt;
  };
  SeriesOptions options;
  options.path = arguments.series;
  options.plot = arguments.plot;
  options.links = arguments.links;
  options.flows = arguments.flows;
  if (!options.wanted()) {
    if (arguments.interval.empty() && options.links.empty() && options.flows.empty()) {
      return options;
    }
    return complain("--series-*: says what to sample, but neither --series nor --plot is given");
  }
  const std::string option = options.path.empty() ? "--plot" : "--series";
  if (!is_switched(config)) {
    return complain(option + ": samples are of a network, and " + config.path +
                    " has no [topology], [queues] or [[traffic]]");
  }
  if (!arguments.interval.empty()) {
    const auto interval = parse_duration(arguments.interval);
    if (!interval) {
      return complain("--series-interval \"" + arguments.interval + "\": " + interval.error().text);
    }
    options.interval = *interval;
    if (options.interval.ps() == 0) {
      return complain("--series-interval \"" + arguments.interval + "\": takes some time");
    }
  }
  if (!options.plot.empty() && !can_plot(options.plot)) {
    return complain("--plot " + options.plot + ": a plot's name ends in .svg or .png");
  }
  if (const auto fits = check_series(config, options); !fits) return complain(fits.error().text);
  status = kExitFailed;
  if (const auto file = SeriesFile::create(options.path); !file) {
    return complain(option + ": " + file.error().text);
  }
  if (options.plot.empty()) return options;
  if (const auto found = find_program(kGnuplot); !found) {
    return complain("--plot: " + found.error().text);
  }
  return options;
}

}  // namespace understudy
