// Where NCCL's port failover (docs/nccl 3.15) is asked for and cannot be had.
#pragma once

#include "ctrl/compile/scenario.h"

namespace understudy {

/// Error, with the variable's place in the file: this release has none, or whoever is the other side
/// does not play it.
Result<void> check_failover(const Scenario& scenario);

}  // namespace understudy
