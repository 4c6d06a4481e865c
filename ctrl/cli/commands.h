// The subcommands: each adds itself to the parser and leaves its exit status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ctrl/compile/scenario.h"
#include "ctrl/config/config.h"
#include "ctrl/network/series_options.h"
#include "ctrl/report/run_report.h"
#include "ctrl/topology/topology.h"

namespace CLI {
class App;
}

namespace understudy {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitNotFaithful = 3;

void add_capabilities(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_simulate(CLI::App& app, int& status);
void add_run(CLI::App& app, int& status);
void add_topo(CLI::App& app, int& status);
void add_schedule(CLI::App& app, int& status);
void add_command(CLI::App& app, int& status);
void add_predict(CLI::App& app, int& status);
void add_compare(CLI::App& app, int& status);
void add_fct(CLI::App& app, int& status);
void add_calibrate(CLI::App& app, int& status);
void add_feed(CLI::App& app, int& status);
void add_env(CLI::App& app, int& status);
void add_status(CLI::App& app, int& status);
void add_workload(CLI::App& app, int& status);
/// Subcommands of `workload`.
void add_workload_traces(CLI::App& workload, int& status);
void add_workload_import(CLI::App& workload, int& status);
void add_workload_export(CLI::App& workload, int& status);
void add_workload_resize(CLI::App& workload, int& status);
void add_workload_partition(CLI::App& workload, int& status);
void add_workload_simai(CLI::App& workload, int& status);

/// Prints the text, or on stderr what was wrong with the input; gives the exit status.
int print_or_refuse(const Result<std::string>& text);

/// What simulate and run share.
struct RunArguments {
  std::string config;
  std::string capture, report, timeline, junit;
  std::optional<uint64_t> seed;
  std::string fidelity;  ///< empty: the configuration's
  std::vector<std::string> commands, scenarios;
  bool quiet = false, strict = false;
};
/// --strict: doubts about a result are an error.
void add_strict(CLI::App& command, bool& strict);
/// With `strict` says on stderr how many doubts there are; kExitNotFaithful if there are some and all else
/// went well, else `status`.
int strict_status(const std::vector<ValidityLine>& lines, bool strict, int status);
/// --seed, with the range and the words of the configuration's key.
void add_seed(CLI::App& command, std::optional<uint64_t>& seed, const char* what);
void add_run_arguments(CLI::App& command, RunArguments& arguments);

/// What a run writes over time.
struct SeriesArguments {
  std::string series, plot, interval;
  std::vector<std::string> links, flows;

  bool wanted() const { return !series.empty() || !plot.empty(); }
};
void add_series_arguments(CLI::App& command, SeriesArguments& arguments, RunClock clock);
/// Checks all that can be wrong before a run; prints errors, and leaves the exit status of the
/// first. Nothing on errors.
std::optional<SeriesOptions> series_or_complain(const Scenario& scenario,
                                                const SeriesArguments& arguments, int& status);

/// Loads and checks; prints every error to stderr. Nothing on errors.
std::optional<Config> load_with_model(const std::string& path);
/// The same for commands that carry out no [model]: one is an error too.
std::optional<Config> load_or_complain(const std::string& path);
/// The configuration with its scenarios and the seed; prints every error. Nothing on errors.
std::optional<Config> load_or_complain(const RunArguments& arguments);
/// False where a job lists no operations, which `command` tells of; prints which one.
bool lists_operations(const Config& config, const char* command);
/// That of [topology], of a configuration that load_or_complain() gave; nothing without.
std::optional<Topology> given_topology(const Config& config);
/// Parses --at commands; prints errors. Nothing on errors.
std::optional<std::vector<EventConfig>> commands_or_complain(const Config& config,
                                                             const std::vector<std::string>& texts);
/// Whether all files that the options name can be written, before a run; prints what is wrong. The
/// exit status.
int outputs_or_complain(const RunArguments& arguments, const SeriesArguments& series);
/// A reader of a pipe that leaves is an error of that file, and does not end the program.
void outlive_readers();
/// Of a run without a report: says why, in JUnit's file too.
int finish_broken(const std::string& why, const RunArguments& arguments, int status);
/// Prints the table, writes all files, and says how it went.
int finish_run(const RunReport& report, const RunArguments& arguments);

}  // namespace understudy
