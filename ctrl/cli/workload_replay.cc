#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "collective_model/traces/replay.h"
#include "ctrl/cli/commands.h"
#include "ctrl/cli/replay_options.h"
#include "ctrl/traces/pytorch/host_stats.h"
#include "ctrl/traces/replay_text.h"
#include "ctrl/traces/trace_files.h"
#include "ctrl/traces/trace_stats.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

struct StatsArguments {
  std::string trace;
  uint32_t passes = 1;
  bool json = false;
};

struct ReplayArguments {
  std::string trace;
  ReplayOptions options;
  uint32_t passes = 1;
  bool json = false, nodes = false;
};

/// Nothing: the file is no host trace.
Result<std::optional<std::string>> host_stats(const StatsArguments& arguments) {
  if (!std::filesystem::is_regular_file(arguments.trace)) return std::nullopt;
  std::ifstream file(arguments.trace, std::ios::binary);
  std::string beginning(4096, '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<size_t>(file.gcount()));
  if (!looks_like_host_trace(beginning)) return std::nullopt;
  file.clear();
  file.seekg(0);
  const HostTrace trace = TRY(read_host_trace(file, arguments.trace));
  return arguments.json ? stats_json(trace) : stats_text(trace);
}

Result<std::string> stats(const StatsArguments& arguments) {
  if (const auto text = TRY(host_stats(arguments))) return *text;
  TraceFilesOptions options;
  options.passes = arguments.passes;
  const TraceJob job = TRY(read_traces(arguments.trace, options));
  print_notes(job);
  return arguments.json ? stats_json(job) : stats_text(job);
}

Result<std::string> replayed(const ReplayArguments& arguments) {
  ReplayFiles files = TRY(read_replay_files(arguments.options));
  const ReplaySettings& settings = files.settings;
  TraceFilesOptions options;
  options.ranks = settings.network.ranks();
  options.passes = arguments.passes;
  TraceJob job = TRY(read_traces(arguments.trace, options));
  print_notes(job);
  if (files.groups) job.groups = *std::move(files.groups);
  const auto ranks = replay(job, settings);
  if (!ranks) return fail(arguments.trace + ": " + ranks.error().text);
  if (arguments.json || arguments.nodes) {
    return replay_json(job, *ranks, settings, arguments.nodes);
  }
  return replay_text(*ranks, settings);
}

constexpr const char* kTrace =
    "Prefix of PREFIX.RANK.et, or one file for all ranks: .et, JSON of Chakra's feeder, text "
    "workload; or a GOAL schedule, text or binary";

void add_stats(CLI::App& workload, int& status) {
  CLI::App* command = workload.add_subcommand(
      "stats", "What execution traces contain: nodes, dependencies, bytes of collectives");
  auto arguments = std::make_shared<StatsArguments>();
  command
      ->add_option("trace", arguments->trace,
                   std::string(kTrace) + "; or a host trace of PyTorch (JSON)")
      ->required();
  command->add_option("--passes", arguments->passes, "Iterations of a text workload")
      ->check(CLI::Range(1, 100000));
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer("Example: understudy workload stats traces/gpt");
  command->callback([arguments, &status] { status = print_or_refuse(stats(*arguments)); });
}

void add_replay(CLI::App& workload, int& status) {
  CLI::App* command = workload.add_subcommand(
      "replay", "When each rank of execution traces finishes, by ASTRA-sim's rules and files");
  auto arguments = std::make_shared<ReplayArguments>();
  command->add_option("trace", arguments->trace, kTrace)->required();
  add_replay_options(*command, arguments->options, true);
  command->add_option("--passes", arguments->passes, "Iterations of a text workload")
      ->check(CLI::Range(1, 100000));
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_flag("--nodes", arguments->nodes,
                    "Print JSON with begin and end of every node of every rank");
  command->footer(
      "Example: understudy workload replay traces/gpt --network Ring_8npus.yml --system Ring.json");
  command->callback([arguments, &status] { status = print_or_refuse(replayed(*arguments)); });
}

}  // namespace

void add_workload_traces(CLI::App& workload, int& status) {
  add_stats(workload, status);
  add_replay(workload, status);
}

}  // namespace understudy
