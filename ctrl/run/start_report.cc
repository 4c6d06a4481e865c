#include "ctrl/run/start_report.h"

#include "ctrl/report/version.h"

namespace understudy {

RunReport start_report(const Config& config, bool virtual_clock) {
  RunReport report;
  report.program_version = kVersion;
  report.configuration_path = config.path;
  report.configuration_hash = config.hash;
  for (const ScenarioConfig& scenario : config.scenarios) {
    report.scenarios.emplace_back(scenario.path, scenario.hash);
  }
  report.seed = config.seed;
  report.virtual_clock = virtual_clock;
  report.tolerance = config.fidelity.tolerance;
  return report;
}

}  // namespace understudy
