// How the processes of a communicator come by its ncclUniqueId: a file of its 128 bytes, or
// NCCL_COMM_ID.
#pragma once

#include <nccl.h>

#include <chrono>
#include <string>

#include "dataplane/base/result.h"
#include "tools/allreduce_node/options.h"

namespace understudy {

/// Reads `options.id_file`, for which it waits, or makes an id and writes it to
/// `options.make_id_file`, or leaves it to NCCL, which takes NCCL_COMM_ID, or makes one that no
/// other process needs. The file appears in one piece.
Result<ncclUniqueId> unique_id_for(const NodeOptions& options, std::chrono::milliseconds patience);

}  // namespace understudy
