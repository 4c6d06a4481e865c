// roce-check CAPTURE [CAPTURE]: exit 0 when each capture holds and is complete, 1 when one does not,
// 2 when the arguments or files are bad.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/report/series/gnuplot.h"
#include "ctrl/report/version.h"
#include "dataplane/base/output_file.h"
#include "dataplane/base/privileges.h"
#include "tools/roce_check/between/two_ends.h"
#include "tools/roce_check/checks/analysis.h"
#include "tools/roce_check/output/plot.h"
#include "tools/roce_check/output/report.h"

namespace {

struct Arguments {
  std::vector<std::string> captures;  ///< one, or those of both ends
  std::string config;
  double cnp_interval_us = 0;
  std::vector<std::string> without_cnps;
  understudy::PlotOptions plot;
  bool json = false;
  bool quiet = false;
  understudy::AnalysisOptions options;
};

void report(const Arguments& arguments, const std::vector<understudy::Analysis>& analyses) {
  const auto& paths = arguments.captures;
  if (arguments.quiet && !arguments.json) return;
  if (analyses.size() == 1) {
    std::cout << (arguments.json ? understudy::report_json(analyses[0], paths[0])
                                 : understudy::report_text(analyses[0], paths[0]));
    return;
  }
  const auto between = understudy::compare_ends(analyses[0], analyses[1]);
  if (arguments.json) {
    std::cout << understudy::ends_json(analyses[0], paths[0], analyses[1], paths[1], between);
    return;
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    std::cout << understudy::report_text(analyses[i], paths[i]) << '\n';
  }
  std::cout << understudy::between_text(between, paths[0], paths[1]);
}

int run(Arguments arguments) {
  // A capture is somebody else's. As root, files of others are still to be read, and plots written.
  if (const auto why = understudy::keep_capabilities(understudy::kOverrideFileModes);
      !why.empty()) {
    std::cerr << "roce-check: " << why << '\n';
  }
  std::optional<understudy::Config> config;
  if (!arguments.config.empty()) {
    auto loaded = understudy::load_config(arguments.config);
    if (!loaded) {
      std::cerr << understudy::describe(loaded.error());
      return 2;
    }
    config = std::move(*loaded);
    arguments.options.config = &*config;
  }
  if (const std::string& file = arguments.plot.file; !file.empty() && !understudy::can_plot(file)) {
    std::cerr << "roce-check: --plot " << file << ": a plot's name ends in .svg or .png\n";
    return 2;
  }
  if (arguments.cnp_interval_us > 0) {
    constexpr double kPsPerMicrosecond = 1e6;
    arguments.options.cnp_interval = understudy::Duration::ps(
        static_cast<int64_t>(arguments.cnp_interval_us * kPsPerMicrosecond));
  }
  for (const std::string& text : arguments.without_cnps) {
    const auto address = understudy::IpAddress::parse(text);
    if (!address) {
      std::cerr << "roce-check: --without-cnps " << text << ": no IPv4 or IPv6 address\n";
      return 2;
    }
    arguments.options.without_cnps.push_back(*address);
  }
  arguments.options.keep_packets = !arguments.plot.file.empty() || arguments.captures.size() > 1;
  std::vector<understudy::Analysis> analyses;
  for (const std::string& capture : arguments.captures) {
    auto analysis = understudy::analyse(capture, arguments.options);
    if (!analysis) {
      std::cerr << "roce-check: " << analysis.error().text << '\n';
      return 2;
    }
    analyses.push_back(std::move(*analysis));
  }
  report(arguments, analyses);
  if (!arguments.plot.file.empty()) {
    const auto drawn =
        understudy::plot(analyses.front(), arguments.captures.front(), arguments.plot);
    if (!drawn) {
      std::cerr << "roce-check: " << drawn.error().text << '\n';
      return 2;
    }
  }
  const bool hold = std::ranges::all_of(
      analyses, [](const understudy::Analysis& analysis) { return analysis.findings.hold(); });
  return hold ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{
      "Judges a capture (pcap, pcapng or ERF) of RoCEv2 traffic, connection by connection: "
      "headers, "
      "ICRC,\n"
      "PSN order and going back, ACKs, NAKs, READs, ATOMICs, waits, ECN and CNPs, RDMA-CM. Names "
      "the\n"
      "rule, the frame and its time. With the run's configuration also link rates and the bytes "
      "of\n"
      "each step of its collectives."};
  app.name("roce-check");
  app.set_version_flag("--version", std::string("roce-check ") + understudy::kVersion);
  app.add_option(
         "capture", arguments.captures,
         "pcap, pcapng or ERF file; of a second one, from the other end of the network, what\n"
         "was lost between them")
      ->required()
      ->expected(1, 2);
  app.add_option("--config", arguments.config,
                 "configuration of the run: also check the rates of its links and the messages of\n"
                 "its collectives");
  app.add_flag(
      "--json", arguments.json,
      "print the report as JSON (schema understudy-roce-check/2: report.schema.json beside the\n"
      "program's source)");
  app.add_flag("--quiet", arguments.quiet, "print nothing, the exit status says it all");
  app.add_option("--plot", arguments.plot.file,
                 "draw PSN over time and rate over time of each queue pair as SVG (needs gnuplot)");
  app.add_option("--plot-queues", arguments.plot.queues, "how many of the busiest are drawn")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_flag("--partial", arguments.options.partial,
               "the capture is a part of the traffic: it may begin inside connections and lack\n"
               "packets; what was not captured is said, but is no fault");
  app.add_flag("--impaired", arguments.options.impaired,
               "the network may have duplicated and reordered packets between the capture and an\n"
               "endpoint, or lost the last answers (other losses are always allowed for)");
  app.add_option(
         "--cnp-interval", arguments.cnp_interval_us,
         "microseconds that CNPs to one queue pair must be apart when they leave (rule A6.4); of\n"
         "those that crossed a network that --config emulates, their number is judged")
      ->check(CLI::PositiveNumber & CLI::Range(0.0, 1e9));  // picoseconds must fit
  app.add_option("--without-cnps", arguments.without_cnps,
                 "address of an endpoint that sends no CNPs, as Linux' rdma_rxe: marks on the way\n"
                 "to it need no answer (rule A6.2); nodes of kind \"kernel\" of --config are such")
      ->type_name("ADDRESS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--open-end", arguments.options.open_end,
               "the capture was stopped in mid-run: accept requests in flight at its end");
  app.footer(
      "Exit status: 0 the capture holds and is complete, 1 it does not, 2 bad arguments or files.\n"
      "Examples: roce-check run.pcapng --config configs/quickstart.toml\n"
      "          roce-check --partial --plot run.svg others.pcap\n"
      "          roce-check --open-end client.pcap server.pcap");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return understudy::finish_output("roce-check", run(arguments), 2);
}
