// The number by which NCCL's profiler tells communicators apart (ncclComm::commHash): of all bytes
// of the unique id. A child's is the magic that its sockets show (docs/nccl 1.8; 2.23 and later).
#pragma once

#include <cstdint>

#include "ctrl/peers/nccl/bootstrap/unique_id.h"

namespace understudy {

/// Of the first communicator. Source: getHash() of NCCL's src/include/bitops.h, which is another
/// function from 2.26 on.
uint64_t communicator_hash(const NcclUniqueId& id, NcclVersion version);

}  // namespace understudy
