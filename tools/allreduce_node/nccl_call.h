// A collective as NCCL's own calls.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdint>

#include "tools/allreduce_node/collective.h"

namespace understudy {

struct NcclCall {
  CollectiveKind kind;
  ElementType type;
  Reduction reduction;
  uint32_t root, rank, ranks;
};

/// Enqueues one operation.
ncclResult_t enqueue(const NcclCall& call, const Shape& shape, OperationBuffers buffers,
                     ncclComm_t communicator, cudaStream_t stream);

}  // namespace understudy
