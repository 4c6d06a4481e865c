// A whole run in virtual time of a configuration, as `understudy simulate` makes it.
#pragma once

#include <vector>

#include "ctrl/compile/scenario.h"
#include "ctrl/run/simulate.h"
#include "dataplane/base/try.h"

namespace understudy {

/// `commands` are those of --at. Errors are those of compiling or of the run.
inline Result<RunReport> compile_and_simulate(const Config& config,
                                              const SimulateOptions& options = {},
                                              const std::vector<EventConfig>& commands = {}) {
  const Asked asked{config, !options.capture_path.empty(), options.series.wanted(),
                    !options.feed_path.empty()};
  const Scenario scenario = TRY(compile_scenario(asked, RunClock::kVirtual, commands));
  return simulate(scenario, options);
}

}  // namespace understudy
