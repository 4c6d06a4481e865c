#include "collective_model/tuner/nvlink_mesh.h"

#include <algorithm>
#include <vector>

namespace understudy {
namespace {

/// Room that is left on the links, by sender and receiver: how many rings they can still carry.
using Room = std::array<std::array<uint32_t, kMeshGpus>, kMeshGpus>;

/// Finds as many rings as fit, all of them from GPU 0 on.
class RingSearch {
 public:
  RingSearch(const NvlinkMesh& mesh, uint32_t gpus, double link, double speed, bool bridged)
      : gpus_(gpus) {
    for (uint32_t a = 0; a < gpus; ++a) {
      for (uint32_t b = 0; b < gpus; ++b) {
        room_[a][b] = static_cast<uint32_t>(mesh[a][b] * link / speed);
      }
    }
    for (uint32_t a = 0; a < gpus; ++a) {
      for (uint32_t b = 0; b < gpus; ++b) {
        if (a == b) continue;
        const bool joined = mesh[a][b] > 0;
        bridge_[a][b] = joined || !bridged ? kNone : widest_bridge(mesh, a, b);
        usable_[a][b] = joined || bridge_[a][b] != kNone;
      }
    }
  }

  uint32_t most(uint32_t limit) {
    list_cycles(0, 1);
    limit_ = limit;
    add_rings(0, 0);
    return best_;
  }

 private:
  static constexpr uint32_t kNone = kMeshGpus;
  /// Steps of the search, after which NCCL's would have ended as well.
  static constexpr uint32_t kMostSteps = 1 << 20;

  /// A GPU with links to both, those of the most bandwidth.
  uint32_t widest_bridge(const NvlinkMesh& mesh, uint32_t a, uint32_t b) const {
    uint32_t found = kNone;
    int width = 0;
    for (uint32_t c = 0; c < gpus_; ++c) {
      const int here = std::min(mesh[a][c], mesh[c][b]);
      if (here <= width) continue;
      width = here;
      found = c;
    }
    return found;
  }

  /// Cycles that lead from `path_`'s last GPU through all GPUs that are not in `seen` and back.
  void list_cycles(uint32_t last, uint32_t seen) {
    path_.push_back(last);
    if (path_.size() == gpus_) {
      if (usable_[last][0]) cycles_.push_back(path_);
    } else {
      for (uint32_t next = 1; next < gpus_; ++next) {
        if ((seen >> next & 1u) == 0 && usable_[last][next]) {
          list_cycles(next, seen | 1u << next);
        }
      }
    }
    path_.pop_back();
  }

  /// Takes (or gives back) the links of one hop.
  bool take(uint32_t a, uint32_t b) {
    const uint32_t c = bridge_[a][b];
    if (c != kNone) {
      if (room_[a][c] == 0 || room_[c][b] == 0) return false;
      --room_[a][c];
      --room_[c][b];
      return true;
    }
    if (room_[a][b] == 0) return false;
    --room_[a][b];
    return true;
  }
  void give_back(uint32_t a, uint32_t b) {
    const uint32_t c = bridge_[a][b];
    if (c != kNone) {
      ++room_[a][c];
      ++room_[c][b];
    } else {
      ++room_[a][b];
    }
  }

  /// No more rings than the GPU with the least room can still send or receive.
  uint32_t bound() const {
    uint32_t least = ~0u;
    for (uint32_t a = 0; a < gpus_; ++a) {
      uint32_t out = 0, in = 0;
      for (uint32_t b = 0; b < gpus_; ++b) {
        out += room_[a][b];
        in += room_[b][a];
      }
      least = std::min({least, out, in});
    }
    return least;
  }

  void add_rings(size_t from, uint32_t rings) {
    best_ = std::max(best_, std::min(rings, limit_));
    if (best_ == limit_ || rings + bound() <= best_ || ++steps_ > kMostSteps) return;
    for (size_t i = from; i < cycles_.size(); ++i) {
      uint32_t hops = 0;
      while (hops < gpus_ && take(cycles_[i][hops], cycles_[i][(hops + 1) % gpus_])) ++hops;
      if (hops == gpus_) add_rings(i, rings + 1);
      while (hops > 0) {
        --hops;
        give_back(cycles_[i][hops], cycles_[i][(hops + 1) % gpus_]);
      }
    }
  }

  uint32_t gpus_;
  Room room_{};
  std::array<std::array<uint32_t, kMeshGpus>, kMeshGpus> bridge_{};
  std::array<std::array<bool, kMeshGpus>, kMeshGpus> usable_{};
  std::vector<uint32_t> path_;
  std::vector<std::vector<uint32_t>> cycles_;
  uint32_t limit_ = 0, best_ = 0, steps_ = 0;
};

}  // namespace

const NvlinkMesh& hybrid_cube_mesh() {
  static constexpr NvlinkMesh kMesh = {{{0, 1, 1, 2, 2, 0, 0, 0},
                                        {1, 0, 2, 1, 0, 2, 0, 0},
                                        {1, 2, 0, 2, 0, 0, 1, 0},
                                        {2, 1, 2, 0, 0, 0, 0, 1},
                                        {2, 0, 0, 0, 0, 1, 1, 2},
                                        {0, 2, 0, 0, 1, 0, 2, 1},
                                        {0, 0, 1, 0, 1, 2, 0, 2},
                                        {0, 0, 0, 1, 2, 1, 2, 0}}};
  return kMesh;
}

uint32_t rings_of(const NvlinkMesh& mesh, uint32_t gpus, double link, double speed, bool bridged,
                  uint32_t most) {
  return RingSearch(mesh, gpus, link, speed, bridged).most(most);
}

NcclGraph mesh_graph(const NvlinkMesh& mesh, uint32_t gpus, double link,
                     std::span<const double> speeds, uint32_t most) {
  NcclGraph best{0, 0, 0, true};
  for (const double speed : speeds) {
    if (best.channels > 0 && speed / best.intra <= .49) break;
    for (const bool bridged : {false, true}) {
      if (bridged && !best.bridged) break;
      const uint32_t rings = rings_of(mesh, gpus, link, speed, bridged, most);
      if (rings * speed <= best.channels * best.intra) continue;
      best = {rings, speed, speed, bridged};
    }
  }
  return best;
}

}  // namespace understudy
