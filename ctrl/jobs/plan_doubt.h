// Of a job whose plan has other times than packets: how far it is from flows.
#pragma once

#include <string>

#include "ctrl/jobs/job_state.h"

namespace understudy {

/// A sentence, empty where the plan holds or is not used. `state` has its modelled times. Operations
/// of few enough messages are followed as flows, and the largest difference is in it.
std::string plan_doubt(const Config& config, const JobConfig& job, const JobState& state);

}  // namespace understudy
