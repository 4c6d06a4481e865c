// GPUs of a node that NVLinks join directly, without switches: how many rings NCCL finds among
// them. It depends on which GPUs take part: a ring is a cycle through all of them that takes one
// direction of the links it passes for itself.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "collective_model/tuner/tuning.h"

namespace understudy {

inline constexpr uint32_t kMeshGpus = 8;

/// Number of NVLinks between two GPUs, by their numbers.
using NvlinkMesh = std::array<std::array<uint8_t, kMeshGpus>, kMeshGpus>;

/// The hybrid cube mesh of DGX-1 and alike with V100, six links on each GPU: what `nvidia-smi topo
/// -m` shows of these machines.
const NvlinkMesh& hybrid_cube_mesh();

/// Rings of `speed` (GB/s) through the GPUs 0 to `gpus` - 1 where a link carries `link` GB/s each
/// way; 1 < `gpus` <= kMeshGpus, at most `most` rings. With `bridged` a ring may go from a GPU to
/// another one through a third that both have links to, if they have none to each other.
uint32_t rings_of(const NvlinkMesh& mesh, uint32_t gpus, double link, double speed, bool bridged,
                  uint32_t most);

/// What NCCL's search finds there: it tries `speeds` in descending order, each first with links
/// alone, then bridged, and keeps the first of those with the most bandwidth in all. Slower ones it
/// leaves out once they are less than half as fast as what it has. 0 channels: there is no ring.
NcclGraph mesh_graph(const NvlinkMesh& mesh, uint32_t gpus, double link,
                     std::span<const double> speeds, uint32_t most);

}  // namespace understudy
