#include "collective_model/tuner/tuning_constants.h"

#include <algorithm>
#include <bit>

namespace understudy {
namespace {

constexpr ByProtocol kNotOffered{};

/// A tree's share of its bandwidth at 64 B, 128 B, ... 256 MiB; by protocol.
constexpr double kTreeShare[kProtocols][23] = {
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
    {1., 1., 1., 1., .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1., 1., 1., 1.},
    {1., 1., 1., 1., 1., .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1., 1.}};

/// By generation, then 1, 2, more nodes.
using PerNodes = double[4][3];
constexpr PerNodes kRingLl128 = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}};
constexpr PerNodes kTreeLl128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
constexpr PerNodes kTree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
constexpr PerNodes kNvlsTree = {{}, {}, {0, 57.7, 45.5}, {0, 96, 80}};
constexpr PerNodes kLl = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};

size_t nodes_index(uint32_t nodes) { return std::min(nodes, 3u) - 1; }

}  // namespace

LatencyConstants latency_constants(NcclVersion version) {
  LatencyConstants c;
  // Simple, LL, LL128; ring, tree, PAT.
  const ByProtocol pat_net{14, 0, 0}, pat_node{4, 0, 0}, pat_base{8, 8, 8};
  if (version.minor < 18) {
    c.base = {{{8.4, 3.6, 10}, {0, 4.4, 4.4}, kNotOffered}};
    c.nvlink = {{{3.4, .47, 1.9}, {28, .52, 1.25}, kNotOffered}};
    c.pci = {{{5.7, 1, 2.5}, {28, 1, 1.9}, kNotOffered}};
    const double ring_net = version.minor == 12 || version.minor == 13 ? 28 : 9.6;
    c.net = {{{ring_net, 2.7, 4}, {28, 5, 8.5}, kNotOffered}};
    return c;
  }
  // The tree's Simple latency was short in 2.18, long from 2.19 to 2.22, and is short since.
  const bool long_tree = version.minor >= 19 && version.minor <= 22;
  const double tree_base = version.minor < 23 ? 0 : 8.4;
  const double tree_pci = long_tree ? 28 : version.minor == 18 ? 6 : 4;
  c.base = {{{8.4, 6.6, 14}, {tree_base, 6.8, 14}, pat_base}};
  c.nvlink = {{{3.4, .6, 1.9}, {long_tree ? 28. : 4., .6, 1.25}, pat_node}};
  c.pci = {{{5.7, 1, 2.5}, {tree_pci, 1, 1.9}, pat_node}};
  c.net = {{{14, 2.7, 4}, {long_tree ? 28. : 14., 5, 8.5}, pat_net}};
  // Of the switches' algorithms only those of Simple: NVLS, NVLS tree, CollNet direct and chain.
  const auto switches = [](ByPair& of, double nvls, double nvls_tree, double direct, double chain) {
    of[index(Algorithm::kNvls)][0] = nvls;
    of[index(Algorithm::kNvlsTree)][0] = nvls_tree;
    of[index(Algorithm::kCollnetDirect)][0] = direct;
    of[index(Algorithm::kCollnetChain)][0] = chain;
  };
  switches(c.nvlink, 25, 25, 3.7, 2.8);
  switches(c.pci, 0, 0, 3.7, 2.8);
  switches(c.net, 18, 20.9, 31, 30);
  c.pat_share = version.minor < 23 ? 0 : version.minor == 23 ? .85 : .75;
  return c;
}

BandwidthLimits bandwidth_limits(NcclVersion version, GpuGeneration gpu, CpuVendor cpu,
                                 uint32_t nodes) {
  const size_t n = nodes_index(nodes);
  size_t g = static_cast<size_t>(gpu);
  // Releases that do not know a generation take the one before.
  if (version.minor < 15) g = std::min<size_t>(g, 1);
  if (version.minor < 25) g = std::min<size_t>(g, 2);
  // LL's limit is the GPU's inside a node, and the CPU's between nodes.
  const bool amd = cpu == CpuVendor::kAmd || (cpu == CpuVendor::kMixed && version.minor >= 24);
  size_t ll = nodes == 1 ? g : amd ? 1 : 0;
  if (version.minor < 21) ll = std::min<size_t>(ll, 1);  // Hopper's as Ampere's until then
  return {kLl[ll][n], kRingLl128[g][n], kTreeLl128[g][n], kTree[g][n], kNvlsTree[g][n]};
}

double nvls_efficiency(GpuGeneration gpu) {
  return gpu == GpuGeneration::kBlackwell ? .74 : gpu == GpuGeneration::kHopper ? .85 : 0;
}

uint32_t nvls_channels(GpuGeneration gpu, uint32_t nodes) {
  if (gpu != GpuGeneration::kBlackwell) return 16;
  return nodes > 1 ? 32 : 24;
}

double tree_correction(Protocol protocol, uint64_t bytes) {
  const uint64_t units = bytes >> 6;
  if (units == 0) return 1;
  const auto power = static_cast<size_t>(std::bit_width(units) - 1);
  return power < 23 ? kTreeShare[index(protocol)][power] : 1;
}

}  // namespace understudy
