#include "ctrl/run/start_report.h"

#include "ctrl/report/text.h"
#include "ctrl/report/version.h"

namespace understudy {
namespace {

DrillExpectation expectation_of(DrillOutcome outcome) {
  switch (outcome) {
    case DrillOutcome::kRecovers:
      return DrillExpectation::kRecovers;
    case DrillOutcome::kReports:
      return DrillExpectation::kReports;
    case DrillOutcome::kSlower:
      break;
  }
  return DrillExpectation::kSlower;
}

}  // namespace

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
  for (const DrillConfig& drill : config.drills) {
    DrillReport& made = report.drills.emplace_back();
    made.name = drill.name;
    made.expected = expectation_of(drill.outcome);
    made.within = drill.within;
    made.slower = drill.slower;
    made.from = Time::never();
    if (drill.after) {
      made.awaits = count_text(drill.after->operations, "operation") + " of job '" +
                    config.jobs[drill.after->job].name + "'";
      continue;
    }
    made.from = drill.from;
    made.until = drill.until;
  }
  return report;
}

}  // namespace understudy
