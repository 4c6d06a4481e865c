// roce-check CAPTURE [CAPTURE], roce-check -i INTERFACE: exit 0 when each capture holds and is
// complete, 1 when one does not, 2 when the arguments, files or interface are bad.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/config/units_text.h"
#include "ctrl/report/series/gnuplot.h"
#include "ctrl/report/version.h"
#include "dataplane/base/confinement.h"
#include "dataplane/base/output_file.h"
#include "dataplane/base/privileges.h"
#include "tools/roce_check/between/two_ends.h"
#include "tools/roce_check/checks/analysis.h"
#include "tools/roce_check/live/watch.h"
#include "tools/roce_check/output/drawing_child.h"
#include "tools/roce_check/output/plot.h"
#include "tools/roce_check/output/report.h"
#include "tools/roce_check/packets/capture_source.h"
#include "tools/roce_check/packets/consecutive_source.h"

namespace {

struct Arguments {
  std::vector<std::string> captures;  ///< one, those of both ends, or consecutive ones
  bool consecutive = false;
  std::string interface, interval, duration, buffer;
  std::string config;
  double cnp_interval_us = 0;
  std::vector<std::string> without_cnps;
  understudy::PlotOptions plot;
  bool json = false;
  bool quiet = false;
  understudy::AnalysisOptions options;
};

volatile std::sig_atomic_t caught_signal = 0;

void on_signal(int number) { caught_signal = number; }

int refuse(const std::string& why) {
  std::cerr << "roce-check: " << why << '\n';
  return 2;
}

/// A capture is somebody else's: what this program needs no longer it gives up.
void give_up_capabilities(uint64_t kept) {
  if (const auto why = understudy::keep_capabilities(kept); !why.empty()) {
    std::cerr << "roce-check: " << why << '\n';
  }
}

/// All that it needs is open.
void take_no_more(understudy::Further further) {
  if (const auto why = understudy::confine(further); !why.empty()) {
    std::cerr << "roce-check: goes on without a filter of system calls: " << why << '\n';
  }
}

/// False: it says what is wrong with it.
bool load_configuration(Arguments& arguments, std::optional<understudy::Config>& config) {
  if (arguments.config.empty()) return true;
  auto loaded = understudy::load_config(arguments.config);
  if (!loaded) {
    std::cerr << understudy::describe(loaded.error());
    return false;
  }
  arguments.options.config = &config.emplace(std::move(*loaded));
  return true;
}

void report(const Arguments& arguments, const understudy::Analysis& analysis,
            const std::string& name) {
  if (arguments.json) {
    std::cout << understudy::report_json(analysis, name);
  } else if (!arguments.quiet) {
    std::cout << understudy::report_text(analysis, name);
  }
}

void report_ends(const Arguments& arguments, const std::vector<understudy::Analysis>& analyses) {
  const auto& paths = arguments.captures;
  const auto between = understudy::compare_ends(analyses[0], analyses[1]);
  if (arguments.json) {
    std::cout << understudy::ends_json(analyses[0], paths[0], analyses[1], paths[1], between);
    return;
  }
  if (arguments.quiet) return;
  for (size_t i = 0; i < paths.size(); ++i) {
    std::cout << understudy::report_text(analyses[i], paths[i]) << '\n';
  }
  std::cout << understudy::between_text(between, paths[0], paths[1]);
}

/// Which of the ways to name captures are in use together that do not go together; empty: none.
std::string contradiction(const Arguments& a) {
  if (a.interface.empty()) {
    if (a.captures.empty()) return "capture is required, or -i with a network interface";
    if (!a.interval.empty()) return "--interval needs -i";
    if (!a.duration.empty()) return "--duration needs -i";
    if (!a.buffer.empty()) return "--buffer needs -i";
    if (a.captures.size() > 2 && !a.consecutive) {
      return "more than two captures: those of both ends are two, and the files of one that was "
             "cut need --consecutive";
    }
    return {};
  }
  if (!a.captures.empty()) {
    return "-i " + a.interface + ": a live capture is judged alone, without " + a.captures.front();
  }
  if (a.consecutive) return "-i " + a.interface + ": --consecutive is for files";
  if (!a.plot.file.empty()) {
    return "-i " + a.interface +
           ": --plot cannot be drawn: it looks at all packets at once, and a live capture keeps "
           "none; record it to a file first";
  }
  return {};
}

std::string times_count_from(const std::string& interface, const understudy::LiveCapture& capture) {
  const std::time_t second = capture.summary().first_second;
  std::tm utc{};
  char text[32] = "";
  if (gmtime_r(&second, &utc) != nullptr) std::strftime(text, sizeof text, "%F %T UTC", &utc);
  return interface + ": times count from " + text;
}

int run_live(Arguments arguments) {
  understudy::WatchOptions options;
  for (const auto& [name, text, value] :
       {std::tuple("--interval", &arguments.interval, &options.interval),
        std::tuple("--duration", &arguments.duration, &options.duration)}) {
    if (text->empty()) continue;
    const auto parsed = understudy::parse_duration(*text);
    if (!parsed) return refuse(std::string(name) + ": " + parsed.error().text);
    constexpr auto kLeast = understudy::Duration::ms(10);
    if (*parsed < kLeast || *parsed > understudy::kLongestWatch) {
      return refuse(std::string(name) + " " + *text + ": from 10 ms to 40 days");
    }
    *value = *parsed;
  }
  uint64_t buffer = understudy::kLiveBuffer;
  if (!arguments.buffer.empty()) {
    const auto parsed = understudy::parse_size(arguments.buffer);
    if (!parsed) return refuse("--buffer: " + parsed.error().text);
    if (*parsed < understudy::kLeastLiveBuffer || *parsed > understudy::kMostLiveBuffer) {
      return refuse("--buffer " + arguments.buffer + ": from 1 MiB to 1 GiB");
    }
    buffer = *parsed;
  }
  options.signal = &caught_signal;
  if (!arguments.quiet) {
    std::ostream& out = arguments.json ? std::cerr : std::cout;
    options.say = [&out](const std::string& line) { out << line << std::endl; };
  }
  std::optional<understudy::Config> config;
  if (!load_configuration(arguments, config)) return 2;
  auto capture = understudy::open_live_capture(arguments.interface, buffer);
  give_up_capabilities(understudy::kNoCapabilities);
  if (!capture) return refuse(capture.error().text);
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  if (options.say) options.say(times_count_from(arguments.interface, **capture));
  take_no_more(understudy::Further::kPackets);
  const auto watched = understudy::watch(**capture, arguments.options, options);
  if (watched.broken) {
    std::cerr << "roce-check: " << *watched.broken << "; what came before is judged\n";
  }
  report(arguments, watched.analysis, arguments.interface);
  return watched.analysis.findings.hold() ? 0 : 1;
}

/// Of the captures one after the other: one, those of both ends, or one in files.
understudy::Result<std::vector<std::unique_ptr<understudy::CaptureSource>>> open_captures(
    const Arguments& arguments) {
  std::vector<std::unique_ptr<understudy::CaptureSource>> sources;
  if (arguments.consecutive) {
    auto source = understudy::open_consecutive(arguments.captures);
    if (!source) return tl::unexpected(source.error());
    sources.push_back(std::move(*source));
    return sources;
  }
  for (const std::string& capture : arguments.captures) {
    auto source = understudy::open_capture_source(capture);
    if (!source) return tl::unexpected(source.error());
    sources.push_back(std::move(*source));
  }
  return sources;
}

int run_files(Arguments arguments) {
  // As root, files of others are still to be read, and plots written.
  give_up_capabilities(understudy::kOverrideFileModes);
  std::optional<understudy::Config> config;
  if (!load_configuration(arguments, config)) return 2;
  if (const std::string& file = arguments.plot.file; !file.empty() && !understudy::can_plot(file)) {
    return refuse("--plot " + file + ": a plot's name ends in .svg or .png");
  }
  const bool both_ends = arguments.captures.size() > 1 && !arguments.consecutive;
  arguments.options.keep_packets = !arguments.plot.file.empty() || both_ends;
  std::optional<understudy::DrawingChild> drawing;
  if (!arguments.plot.file.empty()) {
    auto started = understudy::DrawingChild::start();
    if (!started) return refuse(started.error().text);
    drawing.emplace(std::move(*started));
  }
  const auto sources = open_captures(arguments);
  if (!sources) return refuse(sources.error().text);
  take_no_more(arguments.consecutive ? understudy::Further::kFilesToRead
                                     : understudy::Further::kNothing);
  std::vector<understudy::Analysis> analyses;
  for (const auto& source : *sources) {
    auto analysis = understudy::analyse(*source, arguments.options);
    if (!analysis) return refuse(analysis.error().text);
    analyses.push_back(std::move(*analysis));
  }
  const std::string& name = analyses.front().source.files.empty()
                                ? arguments.captures.front()
                                : analyses.front().source.files.front().path;
  if (both_ends) {
    report_ends(arguments, analyses);
  } else {
    report(arguments, analyses.front(), name);
  }
  if (drawing) {
    const auto drawn = understudy::plot(analyses.front(), name, arguments.plot, *drawing);
    if (!drawn) return refuse(drawn.error().text);
  }
  const bool hold = std::ranges::all_of(
      analyses, [](const understudy::Analysis& analysis) { return analysis.findings.hold(); });
  return hold ? 0 : 1;
}

int run(Arguments arguments) {
  if (const std::string why = contradiction(arguments); !why.empty()) return refuse(why);
  if (arguments.cnp_interval_us > 0) {
    constexpr double kPsPerMicrosecond = 1e6;
    arguments.options.cnp_interval = understudy::Duration::ps(
        static_cast<int64_t>(arguments.cnp_interval_us * kPsPerMicrosecond));
  }
  for (const std::string& text : arguments.without_cnps) {
    const auto address = understudy::IpAddress::parse(text);
    if (!address) return refuse("--without-cnps " + text + ": no IPv4 or IPv6 address");
    arguments.options.without_cnps.push_back(*address);
  }
  return arguments.interface.empty() ? run_files(std::move(arguments))
                                     : run_live(std::move(arguments));
}

void add_captures(CLI::App& app, Arguments& arguments) {
  app.add_option(
      "capture", arguments.captures,
      "pcap, pcapng or ERF file, or a pipe that brings pcap (\"-\": standard input); of a second\n"
      "one, from the other end of the network, what was lost between them");
  app.add_flag("--consecutive", arguments.consecutive,
               "the files are one capture that was cut, as tcpdump -C and -G and dumpcap -b do:\n"
               "any number of them, in any order");
  app.add_option("-i,--interface", arguments.interface,
                 "judge what passes on this network interface instead (needs CAP_NET_RAW), until\n"
                 "SIGINT, SIGTERM or --duration; then the report is printed")
      ->type_name("INTERFACE");
  app.add_option("--interval", arguments.interval,
                 "with -i: from one line on how it stands to the next [1s]");
  app.add_option("--duration", arguments.duration, "with -i: end after this time, e.g. 30s");
  app.add_option("--buffer", arguments.buffer,
                 "with -i: the kernel's memory for packets that wait to be judged [64MiB]");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{
      "Judges a capture (pcap, pcapng or ERF) of RoCEv2 traffic, or what passes on a network\n"
      "interface, connection by connection: headers, ICRC, PSN order and going back, ACKs, NAKs,\n"
      "READs, ATOMICs, waits, ECN and CNPs, RDMA-CM. Names the rule, the frame and its time. With\n"
      "the run's configuration also link rates and the bytes of each step of its collectives."};
  app.name("roce-check");
  app.set_version_flag("--version", std::string("roce-check ") + understudy::kVersion);
  add_captures(app, arguments);
  app.add_option("--config", arguments.config,
                 "configuration of the run: also check headers, the rates of its links and the\n"
                 "messages of its collectives (with -i only headers)");
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
      "          roce-check --open-end client.pcap server.pcap\n"
      "          roce-check --consecutive ring.pcap*\n"
      "          roce-check -i eth1 --duration 60s");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return understudy::finish_output("roce-check", run(arguments), 2);
}
