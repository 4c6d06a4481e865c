// What NCCL's settings make of outages, for the environment of a job's real node.
#pragma once

#include <string>

#include "ctrl/config/config.h"

namespace understudy {

/// Lines of a shell's comments: how long queue pairs and sockets of this job's NCCL keep trying, by
/// its release's defaults or [nccl] environment; and for each event and drill of the configuration
/// whether that is long enough.
std::string outage_notes(const Config& config, const JobConfig& job);

}  // namespace understudy
