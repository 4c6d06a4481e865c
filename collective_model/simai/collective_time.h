// How long SimAI's analytical mode says a collective takes: by a table below 1 MiB, and else its bytes at
// the bandwidth of a ring or of an all-to-all. Facts: aliyun/SimAI f5efb5a, Layer.cc (compute_time) and
// calbusbw.cc. It computes in 32-bit floating point; so does this, for the same microseconds.
#pragma once

#include <optional>

#include "collective_model/simai/ratios.h"
#include "collective_model/simai/workload.h"

namespace understudy {

/// What it is told of the cluster: SimAI's options -nv, -nic, -g_p_s, -n_p_s and the overlaps.
struct SimaiCluster {
  float nvlink = 0, nic = 0;  ///< of a GPU and of a NIC, GiB/s (SimAI writes GB/s)
  uint32_t gpus_per_node = 8, nics_per_node = 8;
  /// Shares of the time that computing hides, 0 to 1; pp more than 0.
  float dp_overlap = 0, tp_overlap = 0, ep_overlap = 0, pp_overlap = 1;
  std::optional<RatioTables> ratios;  ///< without: 1
};

/// A group as SimAI sees it: GPUs and NICs on each of its nodes.
struct SimaiPlaces {
  uint64_t nodes = 1;
  uint32_t gpus = 1, nics = 1;
};
/// `ranks` is the size of the group. Every data-parallel rank is a node of its own.
SimaiPlaces simai_places(SimaiGroup group, uint32_t ranks, const SimaiParallel& parallel,
                         const SimaiCluster& cluster);

struct SimaiBandwidth {
  float rate = 0;       ///< as busbw of nccl-tests, in the unit of the cluster
  bool nvlink = false;  ///< between nodes: NVLink is slower than the NICs
};
/// Of a group of two or more GPUs with a NIC or more on each node.
SimaiBandwidth simai_bandwidth(SimaiCollective collective, const SimaiPlaces& places,
                               const SimaiCluster& cluster);

struct SimaiTime {
  double ns = 0;  ///< a whole number
  /// Why a collective that is there takes no time.
  enum class None : uint8_t {
    kTimed,
    kLoneTensor,  ///< a tensor group of one rank: SimAI divides by zero and prints 9.2e18
    kSmall,       ///< below 1 MiB, and its table has no group of this size
    kBroadcast,
  } none = None::kTimed;
};
/// Errors, in words that go on after the collective's name: what SimAI has no bandwidth for.
Result<SimaiTime> simai_time(const SimaiPass& pass, uint32_t ranks, const SimaiParallel& parallel,
                             const SimaiCluster& cluster);

}  // namespace understudy
