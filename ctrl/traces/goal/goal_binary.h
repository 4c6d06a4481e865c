// The binary form of GOAL schedules, which LogGOPSim maps into memory (goal.h).
#pragma once

#include <string>

#include "ctrl/traces/goal/goal.h"

namespace understudy {

/// Whether it begins with the form's number, 4223 in 64 bits, or with 2342: a schedule that a run of
/// LogGOPSim has used up.
bool is_goal_binary(const std::string& bytes);

Result<GoalSchedule> read_goal_binary(const std::string& bytes, const std::string& name);

}  // namespace understudy
