// NCCL's tuner for a job of the configuration.
#pragma once

#include <tl/expected.hpp>
#include <vector>

#include "collective_model/tuner/tuning.h"
#include "ctrl/config/config.h"
#include "ctrl/config/read/load.h"

namespace understudy {

CommunicatorSize job_size(const Config& config, const JobConfig& job);

/// With [nccl] as that says, else with the job's channels and what NCCL's search would find. Or
/// what is wrong with the environment's settings.
tl::expected<Tuner, std::vector<ConfigError>> job_tuner(const Config& config, const JobConfig& job);

}  // namespace understudy
