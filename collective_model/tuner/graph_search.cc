#include "collective_model/tuner/graph_search.h"

#include <algorithm>
#include <span>

#include "collective_model/tuner/nvlink_mesh.h"

namespace understudy {
namespace {

// GB/s of a channel, as NCCL tries them; before Hopper, of Hopper, of Blackwell.
constexpr double kIntra[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double kIntraOld[] = {44, 30, 22, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double kIntra90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double kIntra100[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18};
constexpr double kInter[] = {48, 30, 28, 24, 20, 18,  15,  12,  10, 9,
                             7,  6,  5,  4,  3,  2.4, 1.2, .24, .12};
constexpr double kInter90[] = {48, 45, 42, 40, 30,  24,  22,  20, 17.5,
                               15, 12, 6,  3,  2.4, 1.2, .24, .12};
constexpr double kInter100[] = {96,   48, 45.1, 42, 40, 30,  24,  22,  20,
                                17.5, 15, 12,   6,  3,  2.4, 1.2, .24, .12};

std::span<const double> ladder(GpuGeneration gpu, NcclVersion version, bool inside) {
  if (gpu == GpuGeneration::kBlackwell) {
    return inside ? std::span<const double>(kIntra100) : kInter100;
  }
  if (gpu == GpuGeneration::kHopper) return inside ? std::span<const double>(kIntra90) : kInter90;
  if (inside && version.minor < 15) return kIntraOld;
  return inside ? std::span<const double>(kIntra) : kInter;
}

/// GB/s of one NVLink.
double link_rate(GpuGeneration gpu, NcclVersion version) {
  if (gpu == GpuGeneration::kBlackwell) return 40.1;
  if (gpu == GpuGeneration::kHopper) return version.minor < 20 ? 20 : 20.6;
  return version.minor < 15 ? 22 : 20;
}

/// NVLinks of a GPU.
uint32_t usual_nvlinks(GpuGeneration gpu) {
  if (gpu == GpuGeneration::kVolta) return 6;
  return gpu == GpuGeneration::kAmpere ? 12 : 18;
}

/// GB/s of what joins a GPU with the others of its node.
double gpu_rate_of(const NcclSystem& system, NcclVersion version, const GpuLinks& inside) {
  if (system.intra != IntraLink::kNvlink) return inside.pci_rate;
  const uint32_t links = inside.nvlinks > 0 ? inside.nvlinks : usual_nvlinks(system.gpu);
  return links * link_rate(system.gpu, version);
}

/// GPUs and NICs that are all alike: the first speed whose channels fill the links, or else the one
/// that comes nearest.
NcclGraph switched_graph(const NcclSystem& system, NcclVersion version, bool between,
                         const NodeLinks& links, double gpu_rate, uint32_t most) {
  const double inside = links.gpus > 1 ? gpu_rate : 1e9;
  const double one = between ? links.nic_rate : gpu_rate;
  const double slowest = ladder(system.gpu, version, !between).back();
  NcclGraph best{1, slowest, slowest};
  double most_rate = 0;
  for (const double speed : ladder(system.gpu, version, !between)) {
    if (speed > one) continue;
    uint32_t channels = static_cast<uint32_t>(std::min(inside, gpu_rate * links.gpus) / speed);
    if (between) {
      const double on_nics =
          links.nics * std::max(1.0, static_cast<double>(static_cast<int>(one / speed)));
      channels = static_cast<uint32_t>(std::min(on_nics, inside / speed));
    }
    channels = std::clamp(channels, 1u, most);
    const double rate = speed * channels;
    if (rate > most_rate) {
      most_rate = rate;
      best = {channels, speed, speed};
    } else if (speed / best.intra < .49) {
      break;
    }
  }
  return best;
}

/// The mesh of a communicator's GPUs, or null. Volta's GPUs have no switches between them in nodes of
/// eight.
const NvlinkMesh* mesh_of(const NcclSystem& system, const CommunicatorSize& communicator,
                          const GpuLinks& inside) {
  if (system.intra != IntraLink::kNvlink || communicator.nodes > 1 || communicator.ranks < 2 ||
      communicator.ranks > kMeshGpus || inside.nvlinks > 0) {
    return nullptr;
  }
  if (inside.mesh) return &*inside.mesh;
  return system.gpu == GpuGeneration::kVolta ? &hybrid_cube_mesh() : nullptr;
}

/// Heads of a node and the speed at which each can read and write through the switches: a GPU's link
/// carries a share for each head, and its own share twice.
NcclGraph search_nvls(const NcclSystem& system, NcclVersion version,
                      const CommunicatorSize& communicator, const NodeLinks& links) {
  const bool between = communicator.nodes > 1;
  const double gpu_rate = gpu_rate_of(system, version, links.inside);
  NcclGraph found{between ? std::min(std::max(links.nics, 1u), links.gpus) : links.gpus, 0, 0};
  const double one = gpu_rate / (found.channels + 1.0);
  const auto speeds = ladder(system.gpu, version, !between);
  for (const double speed : speeds) {
    if (speed > one || (between && speed > links.nic_rate)) continue;
    found.intra = found.inter = speed;
    break;
  }
  // The speed between nodes, or what stands for it, may be up to a step beyond twice that.
  for (size_t i = speeds.size(); i-- > 0;) {
    if (speeds[i] <= found.inter || (between && speeds[i] > links.nic_rate)) continue;
    if (found.inter >= 2 * found.intra) break;
    found.inter = speeds[i];
  }
  return found;
}

}  // namespace

void search_graphs(NcclSystem& system, NcclVersion version, const CommunicatorSize& communicator,
                   const NodeLinks& links) {
  const bool between = communicator.nodes > 1;
  const uint32_t most = version.minor < 25 ? 32 : 64;
  const double gpu_rate = gpu_rate_of(system, version, links.inside);
  const double inside = links.gpus > 1 ? gpu_rate : 1e9;
  NcclGraph best{0, 0, 0};
  const NvlinkMesh* mesh = mesh_of(system, communicator, links.inside);
  if (mesh != nullptr) {
    best = mesh_graph(*mesh, communicator.ranks, link_rate(system.gpu, version),
                      ladder(system.gpu, version, true), most / 2);
  }
  if (best.channels == 0) {
    // No ring of NVLinks joins the GPUs of a mesh: they have their slots.
    const double rate = mesh == nullptr ? gpu_rate : links.inside.pci_rate;
    best = switched_graph(system, version, between, links, rate, most / 2);
  }
  const bool newer = system.gpu >= GpuGeneration::kHopper;
  if (best.intra >= 25 && !(newer && best.intra < 50 && best.channels > 4)) {
    const uint32_t twice = std::min(best.channels * 2, most / 2);
    const double share = twice > best.channels ? 2 : 1;
    best = {twice, best.intra / share, best.intra / share, best.bridged};
  }
  system.ring = system.tree = best;
  if (communicator.nodes == 2 && links.gpus > 1) {
    // Trees of two nodes may go faster inside them than between.
    for (const double speed : ladder(system.gpu, version, true)) {
      if (speed < best.inter * 2 && speed > best.intra && speed * best.channels <= inside) {
        system.tree.intra = speed;
        break;
      }
    }
  }
  if (system.nvls) system.nvls_graph = search_nvls(system, version, communicator, links);
  if (system.collnet && links.nics > 0) {
    // A head for each NIC, as fast as that.
    const auto speeds = ladder(system.gpu, version, !between);
    system.collnet_graph = {std::min(links.nics, links.gpus), speeds.back(), speeds.back()};
    for (const double speed : ladder(system.gpu, version, false)) {
      if (speed > links.nic_rate) continue;
      system.collnet_graph.intra = system.collnet_graph.inter = speed;
      break;
    }
  }
  system.channels = std::min(best.channels * 2, most);
  if (newer && between && best.intra > 45 && system.channels < 16) system.channels *= 2;
}

}  // namespace understudy
