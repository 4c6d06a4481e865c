// What NCCL's search would find on common nodes, where a configuration does not tell its graphs:
// all GPUs on NVSwitches (or one GPU), all NICs alike and as near to each GPU. Up to eight of
// Volta's GPUs in one node are the first ones of a hybrid cube mesh (nvlink_mesh.h). NCCL goes down
// a ladder of bandwidths until channels of it fill the links. Ladders and rules: NCCL's
// src/graph/search.cc and topo.h, docs/nccl 2.6.
#pragma once

#include <cstdint>

#include "collective_model/tuner/tuning.h"

namespace understudy {

struct NodeLinks {
  uint32_t gpus = 1;    ///< of one node that take part
  uint32_t nics = 0;    ///< of one node
  double nic_rate = 0;  ///< GB/s of each
};

/// Sets ring, tree and channels of `system` by its GPU and the version.
void search_graphs(NcclSystem& system, NcclVersion version, const CommunicatorSize& communicator,
                   const NodeLinks& links);

}  // namespace understudy
