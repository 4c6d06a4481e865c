// What a program is told that plays a real node in a job of NCCL's operations.
#pragma once

#include <memory>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/config.h"
#include "ctrl/peers/ring/node_job.h"

namespace understudy {

/// Of the communicator's node `node`; `programs`: all ranks that programs play.
std::shared_ptr<const NodeJobMessage> node_job(const Config& config, const JobConfig& job,
                                               const CollectiveSetup& setup, uint32_t node,
                                               std::vector<uint32_t> programs);

}  // namespace understudy
