#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "ctrl/cli/commands.h"
#include "ctrl/report/series/gnuplot.h"
#include "ctrl/sweep/flow_sweep.h"
#include "dataplane/base/output_file.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

struct FctArguments {
  std::vector<std::string> configs, controls;
  uint32_t seeds = 1, threads = 1;
  std::optional<uint64_t> seed;
  std::string fidelity, plot, csv, flows;
  bool quiet = false;
};

std::string stem_of(const Config& config) {
  return std::filesystem::path(config.path).stem().string();
}

bool complain_about(const Config& config, const char* what) {
  std::fprintf(stderr, "%s: %s\n", config.path.c_str(), what);
  return false;
}

bool fits_or_complain(const FctArguments& arguments, const Config& config) {
  if (std::ranges::none_of(config.traffic, &TrafficConfig::slowdown)) {
    return complain_about(config,
                          "there is no [[traffic]] of pattern \"poisson\" or with slowdown = true");
  }
  if (!arguments.controls.empty() && config.fabric.fidelity == FabricFidelity::kFlow) {
    return complain_about(
        config, "--control: at fidelity = \"flow\" senders have fair rates under every control");
  }
  return true;
}

bool differ_or_complain(const std::vector<SweepCase>& cases) {
  std::set<std::string> names;
  for (const SweepCase& curve : cases) {
    if (names.insert(curve.name).second) continue;
    std::fprintf(stderr, "two curves would be called \"%s\"\n", curve.name.c_str());
    return false;
  }
  return true;
}

/// The curves: every configuration under every control, or as it is.
std::optional<std::vector<SweepCase>> cases_or_complain(const FctArguments& arguments,
                                                        const std::deque<Config>& configs) {
  std::vector<SweepCase> cases;
  for (const Config& config : configs) {
    if (!fits_or_complain(arguments, config)) return std::nullopt;
    std::string title = stem_of(config);
    if (std::ranges::count(configs, title, stem_of) > 1) title = config.path;
    if (arguments.controls.empty()) cases.push_back({title, &config});
    if (configs.size() == 1) title.clear();
    for (const std::string& name : arguments.controls) {
      SweepCase curve{title, &config};
      curve.name.append(title.empty() ? "" : " ").append(name);
      curve.as_configured = false;
      const auto found = std::ranges::find(config.controls, name, &ControlConfig::name);
      if (found != config.controls.end()) {
        curve.control = static_cast<uint32_t>(found - config.controls.begin());
      } else if (name != "none") {
        std::fprintf(stderr, "--control: %s has no [[control]] \"%s\"\n", config.path.c_str(),
                     name.c_str());
        return std::nullopt;
      }
      cases.push_back(curve);
    }
  }
  if (!differ_or_complain(cases)) return std::nullopt;
  return cases;
}

/// Rows of flows, as runs end.
class FlowRows {
 public:
  Result<void> open(const std::string& path) {
    path_ = path;
    file_ = TRY(open_growing(path));
    return put(flow_rows_header());
  }
  Result<void> add(const SweepCase& curve, const RunReport& report) {
    if (report.traffic && report.traffic->flows.empty() &&
        std::ranges::any_of(report.traffic->groups,
                            [](const TrafficGroupReport& group) { return group.count > 0; })) {
      return fail(path_ + ": a run of more than " + std::to_string(kMostListedFlows) +
                  " flows has no rows");
    }
    return put(flow_rows(curve.name, report));
  }

 private:
  Result<void> put(const std::string& text) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
    if (auto written = write_all(file_.get(), {bytes, text.size()}); !written) {
      return fail(path_ + ": " + written.error().text);
    }
    return {};
  }

  std::string path_;
  UniqueFd file_;
};

Result<void> sweep_all(const FctArguments& arguments, const std::vector<SweepCase>& cases) {
  SweepOptions options;
  options.seeds = arguments.seeds;
  options.threads = arguments.threads;
  FlowRows rows;
  if (!arguments.flows.empty()) {
    TRY(rows.open(arguments.flows));
    options.done = [&](const SweepCase& curve, uint64_t, const RunReport& report) {
      return rows.add(curve, report);
    };
  }
  if (!arguments.quiet) {
    options.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  }
  const FlowSweep sweep = TRY(sweep_flows(cases, options));
  std::fputs(sweep_text(sweep).c_str(), stdout);
  if (!arguments.csv.empty()) TRY(write_text(arguments.csv, sweep_csv(sweep)));
  if (!arguments.plot.empty()) {
    const std::string heading = "slowdown of flows, " + cases.front().config->path;
    TRY(draw_with(kGnuplot, {}, sweep_script(sweep, arguments.plot, heading)));
  }
  for (const std::string* file : {&arguments.csv, &arguments.flows, &arguments.plot}) {
    if (!file->empty() && !arguments.quiet) std::printf("written: %s\n", file->c_str());
  }
  return {};
}

int run_fct(const FctArguments& arguments) {
  if (!arguments.plot.empty()) {
    if (!can_plot(arguments.plot)) {
      std::fprintf(stderr, "--plot: expected a name that ends in .svg or .png\n");
      return kExitBadInput;
    }
    if (const auto found = find_program(kGnuplot); !found) {
      std::fprintf(stderr, "%s\n", found.error().text.c_str());
      return kExitFailed;
    }
  }
  std::deque<Config> configs;
  for (const std::string& path : arguments.configs) {
    RunArguments run;
    run.config = path;
    run.seed = arguments.seed;
    run.fidelity = arguments.fidelity;
    auto config = load_or_complain(run);
    if (!config) return kExitBadInput;
    configs.push_back(std::move(*config));
  }
  const auto cases = cases_or_complain(arguments, configs);
  if (!cases) return kExitBadInput;
  const auto done = sweep_all(arguments, *cases);
  if (done) return kExitOk;
  std::fprintf(stderr, "%s\n", done.error().text.c_str());
  return kExitFailed;
}

}  // namespace

void add_fct(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "fct",
      "Completion times of flows beside their ideal: simulates [[traffic]] under several "
      "congestion controls and seeds, and prints, tabulates and plots percentiles of the slowdown "
      "by size");
  auto arguments = std::make_shared<FctArguments>();
  command->add_option("config", arguments->configs, "Configurations (TOML); each is a curve")
      ->required();
  command
      ->add_option("--control", arguments->controls,
                   "A curve with all [[traffic]] under this [[control]], or \"none\"; any number")
      ->allow_extra_args(false);
  command
      ->add_option("--seeds", arguments->seeds,
                   "So many runs of each curve, with the configuration's seed and those behind it")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command
      ->add_option("--threads", arguments->threads,
                   "So many runs at once; they give the same result")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  add_seed(*command, arguments->seed, "The first seed; default: the configuration's");
  command
      ->add_option("--fidelity", arguments->fidelity,
                   "Overrides fabric.fidelity: \"packet\", or \"flow\" for max-min fair rates")
      ->check(CLI::IsMember({"packet", "flow"}));
  command->add_option("--plot", arguments->plot,
                      "Draw all curves into this file, .svg or .png (needs gnuplot)");
  command->add_option("--csv", arguments->csv, "Write the percentiles to this file");
  command->add_option("--flows", arguments->flows,
                      "Write every flow's times, ideal and slowdown to this file (CSV)");
  command->add_flag("--quiet", arguments->quiet, "No lines of progress");
  command->footer(
      "Example: understudy fct configs/topology/hpcc_simulation.toml --control dcqcn "
      "--control hpcc --seeds 3 --plot out.svg");
  command->callback([arguments, &status] { status = run_fct(*arguments); });
}

}  // namespace understudy
