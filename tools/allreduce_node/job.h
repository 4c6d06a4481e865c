// All real ranks of this process, a thread each, through all sizes.
#pragma once

#include <nccl.h>

#include "tools/allreduce_node/options.h"

namespace understudy {

/// Prints the table as it grows; with `json_path`, writes that file at the end ("-": standard
/// output, instead of the table). Returns the exit status. When a rank fails, or nothing has moved
/// for the time limit, it says so and ends the process, as threads inside NCCL cannot be called
/// back.
int run_job(const NodeOptions& options, const ncclUniqueId& id, const std::string& json_path);

}  // namespace understudy
