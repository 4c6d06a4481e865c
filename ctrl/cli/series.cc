#include <CLI/CLI.hpp>
#include <cstdio>

#include "ctrl/cli/commands.h"
#include "ctrl/config/network_wanted.h"
#include "ctrl/config/units_text.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/report/series/gnuplot.h"
#include "ctrl/run/series_check.h"

namespace understudy {

namespace {

/// Control's thread, which takes a run's samples, has a turn so often.
constexpr Duration kShortestInReal = Duration::ms(1);
constexpr Duration kUsualInReal = Duration::ms(10);

}  // namespace

void add_series_arguments(CLI::App& command, SeriesArguments& arguments, RunClock clock) {
  command.add_option(
      "--series", arguments.series,
      "Write queues and throughput of links, rates of flows and of queue pairs over time to this "
      "file (CSV)");
  command.add_option("--series-interval", arguments.interval,
                     clock == RunClock::kVirtual
                         ? "Virtual time from one sample to the next (default 10us)"
                         : "Time from one sample to the next (default 10ms, at least 1ms)");
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

std::optional<SeriesOptions> series_or_complain(const Scenario& scenario,
                                                const SeriesArguments& arguments, int& status) {
  const Config& config = scenario.config;
  const RunClock clock = scenario.clock;
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
  if (clock == RunClock::kReal) options.interval = kUsualInReal;
  if (!options.wanted()) {
    if (arguments.interval.empty() && options.links.empty() && options.flows.empty()) {
      return options;
    }
    return complain("--series-*: says what to sample, but neither --series nor --plot is given");
  }
  const std::string option = options.path.empty() ? "--plot" : "--series";
  if (!asks_for_network(config)) {
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
    if (clock == RunClock::kReal && options.interval < kShortestInReal) {
      return complain("--series-interval \"" + arguments.interval +
                      "\": run takes a sample every millisecond at most");
    }
  }
  if (!options.plot.empty() && !can_plot(options.plot)) {
    return complain("--plot " + options.plot + ": a plot's name ends in .svg or .png");
  }
  if (const auto fits = check_series(scenario, options); !fits) return complain(fits.error().text);
  status = kExitFailed;
  if (options.plot.empty()) return options;
  if (const auto found = find_program(kGnuplot); !found) {
    return complain("--plot: " + found.error().text);
  }
  return options;
}

}  // namespace understudy
