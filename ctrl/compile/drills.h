// Which drills can hold: what is expected of them against what the configuration lets happen.
#pragma once

#include "ctrl/compile/scenario.h"

namespace understudy {

/// Error, with the place in the file: a drill that nobody could judge, or that cannot pass.
Result<void> check_drills(const Scenario& scenario);

}  // namespace understudy
