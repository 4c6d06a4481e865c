// Did each connection of a job carry exactly the messages that its schedules say, in order?
#pragma once

#include "ctrl/config/config.h"
#include "tools/roce_check/checks/analysis.h"

namespace understudy {

/// Looks at what real and emulated neighbours of each job wrote with immediate to one another.
/// `open_end`: a run that was stopped may lack messages at the end.
void check_collectives(const Config& config, bool open_end, Analysis& analysis);

}  // namespace understudy
