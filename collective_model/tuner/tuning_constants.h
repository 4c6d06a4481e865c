// NCCL's published cost constants, by release: what its choice of algorithm and protocol is
// computed from. Figures read from NCCL's src/graph/tuning.cc (tags 2.8 to 2.30) and
// docs/nccl 4.
#pragma once

#include <array>
#include <cstdint>

#include "collective_model/nccl/operation.h"

namespace understudy {

enum class GpuGeneration : uint8_t { kVolta, kAmpere, kHopper, kBlackwell };
enum class CpuVendor : uint8_t { kIntel, kAmd, kMixed, kOther };
/// What joins the GPUs of a node.
enum class IntraLink : uint8_t { kNvlink, kPci };

inline constexpr Named<GpuGeneration> kGpuNames[] = {{"volta", GpuGeneration::kVolta},
                                                     {"ampere", GpuGeneration::kAmpere},
                                                     {"hopper", GpuGeneration::kHopper},
                                                     {"blackwell", GpuGeneration::kBlackwell}};
inline constexpr Named<CpuVendor> kCpuNames[] = {{"intel", CpuVendor::kIntel},
                                                 {"amd", CpuVendor::kAmd},
                                                 {"mixed", CpuVendor::kMixed},
                                                 {"other", CpuVendor::kOther}};
inline constexpr Named<IntraLink> kIntraNames[] = {{"nvlink", IntraLink::kNvlink},
                                                   {"pci", IntraLink::kPci}};

inline constexpr size_t kAlgorithms = 7;
inline constexpr size_t kProtocols = 3;

constexpr size_t index(Algorithm a) { return static_cast<size_t>(a); }
constexpr size_t index(Protocol p) { return static_cast<size_t>(p); }

/// By protocol, as Protocol numbers them: Simple, LL, LL128.
using ByProtocol = std::array<double, kProtocols>;
/// By algorithm, as Algorithm numbers them: ring, tree, PAT, those of switches.
using ByPair = std::array<ByProtocol, kAlgorithms>;

/// Times in microseconds.
struct LatencyConstants {
  ByPair base;           ///< of an operation
  ByPair nvlink, pci;    ///< of a hop inside a node
  ByPair net;            ///< of a hop between nodes
  double pat_share = 0;  ///< of the ring's bandwidth that PAT has; 0: the release has no PAT
};

LatencyConstants latency_constants(NcclVersion version);

/// Bandwidths in GB/s; `nodes` >= 1. The first is of all channels, the others are of each.
struct BandwidthLimits {
  double ll = 0;
  double ring_ll128 = 0, tree_ll128 = 0, tree = 0;
  double nvls_tree = 0;
};
BandwidthLimits bandwidth_limits(NcclVersion version, GpuGeneration gpu, CpuVendor cpu,
                                 uint32_t nodes);

/// What NVLS reaches of a link's bandwidth; 0: such GPUs have no switch that reduces.
double nvls_efficiency(GpuGeneration gpu);
/// Channels of NVLS, if the communicator has as many.
uint32_t nvls_channels(GpuGeneration gpu, uint32_t nodes);

/// What a tree's all-reduce of `bytes` reaches of its bandwidth.
double tree_correction(Protocol protocol, uint64_t bytes);

}  // namespace understudy
