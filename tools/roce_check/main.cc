// roce-check CAPTURE: exit 0 when the capture holds and is complete, 1 when it does not, 2 when the
// arguments or files are bad.
#include <CLI/CLI.hpp>
#include <iostream>

#include "tools/roce_check/analysis.h"
#include "tools/roce_check/report.h"

namespace {

struct Arguments {
  std::string capture;
  bool json = false;
  bool quiet = false;
  understudy::AnalysisOptions options;
};

int run(const Arguments& arguments) {
  const auto analysis = understudy::analyse(arguments.capture, arguments.options);
  if (!analysis) {
    std::cerr << "roce-check: " << analysis.error().text << '\n';
    return 2;
  }
  if (arguments.json) {
    std::cout << understudy::report_json(*analysis, arguments.capture);
  } else if (!arguments.quiet) {
    std::cout << understudy::report_text(*analysis, arguments.capture);
  }
  return analysis->findings.hold() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{
      "Judges a capture (pcap or pcapng) of RoCEv2 traffic: parsing, ICRC, PSN order and\n"
      "retransmission, acknowledgement, lengths."};
  app.name("roce-check");
  app.add_option("capture", arguments.capture, "pcap or pcapng file")->required();
  app.add_flag("--json", arguments.json, "print the report as JSON");
  app.add_flag("--quiet", arguments.quiet, "print nothing, the exit status says it all");
  app.add_flag("--open-end", arguments.options.open_end,
               "the capture was stopped in mid-run: accept requests in flight at its end");
  app.footer(
      "Exit status: 0 the capture holds and is complete, 1 it does not, 2 bad arguments or files.\n"
      "Example: roce-check run.pcapng");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(arguments);
}
