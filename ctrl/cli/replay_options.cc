#include "ctrl/cli/replay_options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "ctrl/traces/astra_json.h"
#include "ctrl/traces/astra_network.h"
#include "ctrl/traces/trace_files.h"
#include "dataplane/base/try.h"

namespace understudy {

void add_replay_options(CLI::App& command, ReplayOptions& options, bool required) {
  command.add_option("--network", options.network, "ASTRA-sim's network file (YAML)")
      ->required(required);
  command.add_option("--system", options.system, "ASTRA-sim's system file (JSON)")
      ->required(required);
  command.add_option("--remote-memory", options.memory, "Its file of memory beyond devices");
  command.add_option("--comm-groups", options.groups, "Its file of communicator groups");
  command
      .add_option("--rules", options.rules,
                  "feeder1: data dependencies only, as ASTRA-sim of 2024; feeder3: control "
                  "dependencies too, as in 2025")
      ->check(CLI::IsMember({"feeder1", "feeder3"}))
      ->capture_default_str();
  command
      .add_option("--congestion", options.congestion,
                  "Whether links carry one message at a time: ASTRA-sim's back end of that name")
      ->check(CLI::IsMember({"aware", "unaware"}))
      ->capture_default_str();
}

Result<ReplayFiles> read_replay_files(const ReplayOptions& options) {
  ReplayFiles files;
  ReplaySettings& settings = files.settings;
  settings.rules = options.rules == "feeder1" ? TraceRules::kFeeder1 : TraceRules::kFeeder3;
  auto network = TraceNetwork::make(
      TRY(read_astra_network(TRY(read_whole_file(options.network)), options.network)),
      options.congestion == "aware" ? TraceCongestion::kAware : TraceCongestion::kUnaware);
  if (!network) return fail(options.network + ": " + network.error().text);
  settings.network = *std::move(network);
  settings.system = TRY(read_astra_system(TRY(read_whole_file(options.system)), options.system));
  if (!options.memory.empty()) {
    settings.memory = TRY(read_astra_memory(TRY(read_whole_file(options.memory)), options.memory));
  }
  if (!options.groups.empty()) {
    files.groups = TRY(read_astra_groups(TRY(read_whole_file(options.groups)), options.groups));
  }
  return files;
}

void print_notes(const TraceJob& job) {
  for (const std::string& note : job.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
}

}  // namespace understudy
