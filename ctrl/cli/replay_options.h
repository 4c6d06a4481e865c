// What commands that replay traces share: ASTRA-sim's files and the rules.
#pragma once

#include <optional>
#include <string>

#include "collective_model/traces/replay.h"

namespace CLI {
class App;
}

namespace understudy {

struct ReplayOptions {
  std::string network, system, memory, groups;
  std::string rules = "feeder3", congestion = "aware";
};

/// `required`: of the network and the system file.
void add_replay_options(CLI::App& command, ReplayOptions& options, bool required);

struct ReplayFiles {
  ReplaySettings settings;
  /// Of --comm-groups, if it was given.
  std::optional<std::map<uint32_t, std::vector<uint32_t>>> groups;
};
/// Reads the files. Errors name them.
Result<ReplayFiles> read_replay_files(const ReplayOptions& options);

/// Notes of a job, to stderr.
void print_notes(const TraceJob& job);

}  // namespace understudy
