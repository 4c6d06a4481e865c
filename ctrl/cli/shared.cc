#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "ctrl/cli/commands.h"
#include "ctrl/config/config_limits.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/read/load.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/predict/prediction.h"
#include "ctrl/report/drills/junit.h"
#include "ctrl/report/json.h"
#include "ctrl/report/table.h"
#include "ctrl/run/commands_text.h"
#include "ctrl/topology/topology.h"
#include "ctrl/traffic/traffic.h"
#include "dataplane/base/output_file.h"

namespace understudy {
namespace {

/// Whether flows of files say which way they take, which the network must know.
bool names_paths(const Config& config) {
  return std::any_of(config.traffic.begin(), config.traffic.end(), [](const TrafficConfig& t) {
    return std::any_of(t.flows.begin(), t.flows.end(),
                       [](const ListedFlow& flow) { return !flow.via.empty(); });
  });
}

}  // namespace

void add_strict(CLI::App& command, bool& strict) {
  command.add_flag("--strict", strict, "With a doubt about the result the exit status is 3");
}

int strict_status(const std::vector<ValidityLine>& lines, bool strict, int status) {
  if (!strict) return status;
  const std::string text = strict_text(lines);
  std::fputs(text.c_str(), stderr);
  return status == kExitOk && !text.empty() ? kExitNotFaithful : status;
}

void add_seed(CLI::App& command, std::optional<uint64_t>& seed, const char* what) {
  const auto in_range = [](const std::string& text) -> std::string {
    int64_t value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= 0 && value <= kLargestSeed) return "";
    return "found " + text + ": expected an integer from 0 to " + std::to_string(kLargestSeed);
  };
  command.add_option("--seed", seed, what)->check(CLI::Validator(in_range, "", "seed"));
}

void add_run_arguments(CLI::App& command, RunArguments& arguments) {
  command.add_option("config", arguments.config, "Configuration (TOML)")->required();
  command.add_option("--capture", arguments.capture, "Write every frame to this pcapng file");
  command.add_option("--report", arguments.report, "Write the report (JSON) to this file");
  command.add_option(
      "--timeline", arguments.timeline,
      "Write what happened when to this file (JSON), for Perfetto or Chrome's tracing");
  command.add_option("--junit", arguments.junit,
                     "Write JUnit's XML to this file: a test case for each [[drill]], and the run");
  add_seed(command, arguments.seed, "Overrides the configuration's seed");
  command
      .add_option("--fidelity", arguments.fidelity,
                  "Overrides fabric.fidelity: \"packet\", or \"flow\" for max-min fair rates")
      ->check(CLI::IsMember({"packet", "flow"}));
  command
      .add_option("--at", arguments.commands,
                  "A change during the run, e.g. --at \"20ms link gpu rate 50Mbit/s\"")
      ->allow_extra_args(false);
  command
      .add_option("--scenario", arguments.scenarios,
                  "Adds the [[fault]] tables of this file (TOML)")
      ->allow_extra_args(false);
  add_strict(command, arguments.strict);
  command.add_flag("--quiet", arguments.quiet, "Print errors and the verdict only");
}

std::optional<Config> load_with_model(const std::string& path) {
  ConfigResult config = load_config(path);
  if (!config) {
    std::fputs(describe(config.error()).c_str(), stderr);
    return std::nullopt;
  }
  if (config->topology || names_paths(*config)) {
    const auto topology = build_topology(*config);
    if (!topology) {
      std::fputs(describe(topology.error()).c_str(), stderr);
      return std::nullopt;
    }
    if (names_paths(*config)) {
      if (const auto traffic = build_traffic(*config, *topology); !traffic) {
        std::fputs(describe(traffic.error()).c_str(), stderr);
        return std::nullopt;
      }
    }
  }
  if (const auto errors = check_choices(*config); !errors.empty()) {
    std::fputs(describe(errors).c_str(), stderr);
    return std::nullopt;
  }
  return std::move(*config);
}

std::optional<Config> load_or_complain(const std::string& path) {
  auto config = load_with_model(path);
  if (config && config->workload) {
    std::fprintf(
        stderr,
        "%s:%u: workload: this command is not for traces; simulate carries them out, predict "
        "estimates them, `understudy workload stats` says what they contain\n",
        path.c_str(), config->workload->line);
    return std::nullopt;
  }
  if (!config || !config->training) return config;
  std::fprintf(
      stderr,
      "%s:%u: model: this command is not for training jobs; simulate carries them out, predict "
      "estimates them, `understudy workload show` says what one amounts to\n",
      path.c_str(), config->training->line);
  return std::nullopt;
}

int print_or_refuse(const Result<std::string>& text) {
  if (!text) {
    std::fprintf(stderr, "%s\n", text.error().text.c_str());
    return kExitBadInput;
  }
  std::fputs(text->c_str(), stdout);
  return kExitOk;
}

bool lists_operations(const Config& config, const char* command) {
  for (const JobConfig& job : config.jobs) {
    if (job.listed) continue;
    std::fprintf(stderr,
                 "%s:%u: job.sizes: missing: job \"%s\" is whatever its programs do, which only a "
                 "run beside them shows; %s tells of operations that a [[job]] lists\n",
                 config.path.c_str(), job.line, job.name.c_str(), command);
    return false;
  }
  return true;
}

std::optional<Topology> given_topology(const Config& config) {
  if (!config.topology) return std::nullopt;
  return build_topology(config).value();  // checked when it was loaded
}

std::optional<Config> load_or_complain(const RunArguments& arguments) {
  auto config = load_with_model(arguments.config);
  for (const std::string& scenario : arguments.scenarios) {
    if (!config) break;
    ConfigResult with = load_scenario(std::move(*config), scenario);
    config.reset();
    if (with) {
      config = std::move(*with);
    } else {
      std::fputs(describe(with.error()).c_str(), stderr);
    }
  }
  if (config && arguments.seed) config->seed = *arguments.seed;
  if (config && !arguments.fidelity.empty()) {
    config->fabric.fidelity =
        arguments.fidelity == "flow" ? FabricFidelity::kFlow : FabricFidelity::kPacket;
  }
  return config;
}

std::optional<std::vector<EventConfig>> commands_or_complain(
    const Config& config, const std::vector<std::string>& texts) {
  std::vector<EventConfig> events;
  for (const std::string& text : texts) {
    auto event = parse_command(config, "at " + text);
    if (!event) {
      std::fprintf(stderr, "%s\n", event.error().text.c_str());
      return std::nullopt;
    }
    events.push_back(*event);
  }
  return events;
}

void outlive_readers() { std::signal(SIGPIPE, SIG_IGN); }

int outputs_or_complain(const RunArguments& arguments, const SeriesArguments& series) {
  // Captures and series grow under their names.
  const std::pair<const char*, const std::string*> files[] = {
      {"--capture", &arguments.capture},   {"--series", &series.series},
      {"--report", &arguments.report},     {"--junit", &arguments.junit},
      {"--timeline", &arguments.timeline}, {"--plot", &series.plot}};
  constexpr size_t kGrowing = 2;
  for (size_t i = 0; i < std::size(files); ++i) {
    const auto& [option, file] = files[i];
    if (file->empty()) continue;
    const auto good = i < kGrowing ? check_growing(*file) : check_replaceable(*file);
    if (!good) {
      std::fprintf(stderr, "%s: %s\n", option, good.error().text.c_str());
      return kExitFailed;
    }
    for (size_t k = 0; k < i; ++k) {
      std::error_code error;
      const auto kind = std::filesystem::status(*file, error).type();
      const bool is_file = kind == std::filesystem::file_type::regular ||
                           kind == std::filesystem::file_type::not_found;
      if (*files[k].second != *file || !is_file) continue;
      std::fprintf(stderr, "%s and %s name the same file, %s\n", files[k].first, option,
                   file->c_str());
      return kExitBadInput;
    }
  }
  return kExitOk;
}

int finish_broken(const std::string& why, const RunArguments& arguments, int status) {
  std::fprintf(stderr, "%s\n", why.c_str());
  if (arguments.junit.empty()) return status;
  if (auto written = write_junit(junit_error(arguments.config, why), arguments.junit); !written) {
    std::fprintf(stderr, "%s\n", written.error().text.c_str());
  }
  return status;
}

int finish_run(const RunReport& report, const RunArguments& arguments) {
  std::string text =
      arguments.quiet ? drills_text(report) + verdict_text(report, 5) : report_table(report);
  if (arguments.quiet && arguments.strict) text += validity_text(doubts_of(report.validity));
  std::fputs(text.c_str(), stdout);
  bool all_written = true;
  const auto note = [&](const Result<void>& written) {
    if (written) return;
    std::fprintf(stderr, "%s\n", written.error().text.c_str());
    all_written = false;
  };
  if (!arguments.report.empty()) note(write_report(report, arguments.report));
  if (!arguments.junit.empty()) note(write_junit(junit_xml(report), arguments.junit));
  if (!arguments.timeline.empty()) note(write_timeline(report, arguments.timeline));
  if (!all_written) return kExitFailed;
  if (!arguments.quiet) {
    if (!arguments.capture.empty()) std::printf("capture: %s\n", arguments.capture.c_str());
    if (!arguments.report.empty()) std::printf("report: %s\n", arguments.report.c_str());
    if (!arguments.junit.empty()) std::printf("junit: %s\n", arguments.junit.c_str());
    if (!arguments.timeline.empty()) std::printf("timeline: %s\n", arguments.timeline.c_str());
  }
  const VerdictReport& verdict = report.verdict;
  const bool drilled = std::ranges::all_of(report.drills, &DrillReport::passed);
  const bool good = drilled && (verdict.faithful || verdict.not_judged);
  const int status = good ? kExitOk : kExitNotFaithful;
  return strict_status(report.validity, arguments.strict, status);
}

}  // namespace understudy
