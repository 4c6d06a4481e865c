// Which events and live commands a run can carry out.
#pragma once

#include <string>

#include "ctrl/compile/scenario.h"

namespace understudy {

/// Why it cannot be, with the place in the file; empty: it can.
std::string why_not(const Scenario& scenario, const EventConfig& event);

}  // namespace understudy
