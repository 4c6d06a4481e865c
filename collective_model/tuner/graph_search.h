// What NCCL's search would find on common nodes, where a configuration does not tell its graphs:
// all GPUs on NVSwitches (or one GPU), all NICs alike and as near to each GPU. Up to eight of
// Volta's GPUs in one node are the first ones of a hybrid cube mesh (nvlink_mesh.h), if no other mesh
// is given. NCCL goes down
// a ladder of bandwidths until channels of it fill the links. Ladders and rules: NCCL's
// src/graph/search.cc and topo.h, docs/nccl 2.6.
#pragma once

#include <cstdint>
#include <optional>

#include "collective_model/tuner/nvlink_mesh.h"
#include "collective_model/tuner/tuning.h"

namespace understudy {

/// How the GPUs of a node are joined, where that is known.
struct GpuLinks {
  uint32_t nvlinks = 0;            ///< of each GPU, to switches; 0: as many as such GPUs have
  std::optional<NvlinkMesh> mesh;  ///< they join GPUs directly
  double pci_rate = 12;            ///< GB/s of a GPU's slot; PCIe 3 x16
};

struct NodeLinks {
  uint32_t gpus = 1;    ///< of one node that take part
  uint32_t nics = 0;    ///< of one node
  double nic_rate = 0;  ///< GB/s of each
  GpuLinks inside = {};
};

/// Sets ring, tree and channels of `system` by its GPU and the version.
void search_graphs(NcclSystem& system, NcclVersion version, const CommunicatorSize& communicator,
                   const NodeLinks& links);

}  // namespace understudy
