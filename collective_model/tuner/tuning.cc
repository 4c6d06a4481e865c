#include "collective_model/tuner/tuning.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "collective_model/nccl/communicator.h"

namespace understudy {
namespace {

constexpr uint64_t kCollnetThreshold = 512;  ///< bytes per thread
constexpr uint32_t kAllThreads = 640;
constexpr double kSlowLink = 12;  ///< GB/s of PCIe 3 x16: rings no faster use half the threads

double floor_log2(uint32_t n) { return static_cast<double>(std::bit_width(n) - 1); }

/// Steps of a ring.
double ring_steps(Collective c, uint32_t ranks) {
  const double n = ranks;
  return c == Collective::kAllReduce ? 2 * (n - 1) : has_rank_parts(c) ? n - 1 : n;
}

/// A number of threads as NCCL takes it from the environment.
uint32_t threads_between(std::optional<uint32_t> wish, uint32_t least, uint32_t most,
                         uint32_t otherwise) {
  if (!wish) return otherwise;
  if (*wish % kWarp != 0 || *wish > most) return most;
  return std::max(*wish, least);
}

}  // namespace

Tuner::Tuner(NcclSystem system, CommunicatorSize communicator, NcclVersion version,
             NcclEnvironment environment)
    : system_(system),
      communicator_(communicator),
      version_(version),
      environment_(environment),
      latencies_(latency_constants(version)),
      limits_(bandwidth_limits(version, system_.gpu, system_.cpu, communicator.nodes)) {
  const uint32_t most = version.minor < 25 ? 32 : 64;
  channels_ = std::min(system_.channels, environment_.max_channels.value_or(most));
  channels_ = std::max(std::min(channels_, most), environment_.min_channels.value_or(1));
}

std::string Tuner::no_switch(Collective collective, Algorithm algorithm, Protocol protocol) const {
  const bool nvls = is_nvls(algorithm);
  const std::string name = nvls ? "NVLS" : "CollNet";
  if (nvls && !system_.nvls)
    return "no NVSwitch reduces here ([nccl] nvls = true, and no real node in the job)";
  if (!nvls && !system_.collnet)
    return "no switch of the network reduces ([nccl] collnet = true, and no real node in the job)";
  if (collective != Collective::kAllReduce) return name + " is modelled for all-reduce";
  if (protocol != Protocol::kSimple) return name + " knows Simple only";
  if (version_.minor < 22) return name + " is modelled for NCCL 2.22 and later";
  if (nvls && communicator_.gpus_per_node() < 2) return "NVLS needs several GPUs a node";
  if (algorithm == Algorithm::kNvls && communicator_.nodes > 1) {
    return "NVLS over several nodes is modelled as NVLS tree only";
  }
  if (algorithm != Algorithm::kNvls && communicator_.nodes == 1) return "needs several nodes";
  if (!nvls && communicator_.gpus_per_node() > kMostGpusOfCollnet) {
    return "CollNet takes " + std::to_string(kMostGpusOfCollnet) + " GPUs a node at most";
  }
  if (nvls && environment_.nvls == 0) return "NCCL_NVLS_ENABLE=0";
  if (!nvls && environment_.collnet == 0) return "NCCL_COLLNET_ENABLE=0";
  if (nvls && system_.nvls_graph.channels < 2) return "NVLS needs two channels";
  return "";
}

// Source: graph/tuning.cc, of 2026.
double Tuner::switch_bandwidth(Algorithm algorithm) const {
  if (is_nvls(algorithm)) {
    const NcclGraph& graph = system_.nvls_graph;
    const double channels = graph.channels;
    const double heads = (channels - 1) / channels;
    // Reducing and spreading go at the same time.
    const double intra = graph.intra * nvls_efficiency(system_.gpu) * heads * 2;
    const bool tree = algorithm == Algorithm::kNvlsTree;
    double bus = std::min(intra, graph.inter * (tree && communicator_.nodes <= 2 ? 2 : 1));
    if (tree) bus = std::min(bus, limits_.nvls_tree);
    return bus * channels;
  }
  const NcclGraph& graph = system_.collnet_graph;
  double bus = graph.channels * graph.intra;
  if (algorithm == Algorithm::kCollnetDirect) {
    const double each = static_cast<double>(communicator_.gpus_per_node()) / graph.channels;
    bus /= (1 + each) / 2;
    if (system_.gpu >= GpuGeneration::kHopper) bus *= .85;
  }
  return bus;
}

double Tuner::switch_latency(Algorithm algorithm) const {
  const size_t a = index(algorithm), p = index(Protocol::kSimple);
  const ByPair& inside = system_.intra == IntraLink::kNvlink ? latencies_.nvlink : latencies_.pci;
  const double intra = inside[a][p];
  const double others = communicator_.gpus_per_node() - 1;
  const double inter =
      (others == 0 ? latencies_.net[index(Algorithm::kTree)][p] : latencies_.net[a][p]) +
      2 * system_.network_latency;
  switch (algorithm) {
    case Algorithm::kNvls:
      return intra;
    case Algorithm::kNvlsTree:
      return intra + 2 * floor_log2(communicator_.nodes) * inter;
    case Algorithm::kCollnetDirect:
      return 2 * (std::min(1.0, others) * intra + others * .4) + inter;
    default:
      return 2 * others * intra + inter;
  }
}

std::string Tuner::disabled(Collective collective, Algorithm algorithm, Protocol protocol,
                            bool by_name) const {
  const auto c = static_cast<size_t>(collective);
  if (function_name(collective).empty()) return "point-to-point messages have no algorithm";
  if (algorithm == Algorithm::kTree && collective != Collective::kAllReduce) {
    return "trees are for all-reduce";
  }
  if (algorithm == Algorithm::kPat) {
    if (!has_rank_parts(collective)) return "PAT is for all-gather and reduce-scatter";
    if (latencies_.pat_share == 0) return "PAT came with NCCL 2.23";
    if (protocol != Protocol::kSimple) return "PAT knows Simple only";
    const int64_t enable = environment_.pat.value_or(2);
    if (enable == 0) return "NCCL_PAT_ENABLE=0";
    if (enable == 2 && communicator_.nodes != communicator_.ranks) {
      return "PAT is for one GPU per node";
    }
  }
  if (is_nvls(algorithm) || is_collnet(algorithm)) {
    if (std::string why = no_switch(collective, algorithm, protocol); !why.empty()) return why;
  }
  const Wish p = environment_.protocol[c][index(protocol)];
  const Wish a = environment_.algorithm[c][index(algorithm)];
  if (p == Wish::kOff) return "NCCL_PROTO excludes it";
  // Until 2.23 NCCL_ALGO did not take the ring from other collectives than all-reduce.
  const bool kept =
      version_.minor < 24 && algorithm == Algorithm::kRing && collective != Collective::kAllReduce;
  if (a == Wish::kOff && !kept) return "NCCL_ALGO excludes it";
  if (protocol == Protocol::kLL128 && p == Wish::kUnset && !by_name) {
    if (system_.intra != IntraLink::kNvlink) return "LL128 needs NVLink inside nodes";
    if (!system_.ll128) return "LL128 is not safe on the paths to the NICs (ll128 = false)";
  }
  return "";
}

double Tuner::bandwidth(Collective collective, Algorithm algorithm, Protocol protocol) const {
  if (is_nvls(algorithm)) {
    return switch_bandwidth(algorithm) * communicator_.ranks /
           ring_steps(collective, communicator_.ranks);
  }
  if (is_collnet(algorithm)) return switch_bandwidth(algorithm) * .5;
  const uint32_t nodes = communicator_.nodes;
  const NcclGraph& graph = algorithm == Algorithm::kTree ? system_.tree : system_.ring;
  const double channels = graph.channels;
  double bus = channels * (nodes <= 2 ? graph.intra : graph.inter);
  const bool old = version_.minor < 18;
  const bool one_gpu = communicator_.gpus_per_node() < 2;
  if (old && system_.gpu == GpuGeneration::kAmpere) bus = std::min(bus, 235.0);
  if (algorithm == Algorithm::kRing && protocol == Protocol::kLL) {
    double share = .5;
    if (version_.minor < 21) {
      const bool slower =
          nodes > 1 || collective == Collective::kAllReduce || collective == Collective::kReduce;
      share = slower ? 1.0 / 4 : 1.0 / 3;
    }
    bus = std::min(limits_.ll, bus * share);
  }
  if (algorithm == Algorithm::kRing && protocol == Protocol::kLL128) {
    const double share = version_.minor < 23 && one_gpu ? .7 : .92;
    bus = std::min(bus * share, channels * limits_.ring_ll128);
  }
  if (algorithm == Algorithm::kTree) {
    bus = std::min(bus * .92, channels * limits_.tree);
    if (protocol == Protocol::kLL) bus = std::min(bus / 3.8, limits_.ll);
    if (protocol == Protocol::kLL128) {
      bus = std::min(bus * (nodes == 1 ? 7.0 / 9 : 120.0 / 128), channels * limits_.tree_ll128);
    }
    // With one GPU per node the search gives trees whose ranks have both children.
    if (!old && nodes > 1 && one_gpu) bus *= .85;
  }
  if (algorithm == Algorithm::kPat) return bus * latencies_.pat_share;
  if (algorithm == Algorithm::kTree) return bus * .5;
  return bus * communicator_.ranks / ring_steps(collective, communicator_.ranks);
}

double Tuner::latency(Collective collective, Algorithm algorithm, Protocol protocol) const {
  if (is_nvls(algorithm) || is_collnet(algorithm)) return switch_latency(algorithm);
  const size_t a = index(algorithm), p = index(protocol);
  const double ranks = communicator_.ranks, nodes = communicator_.nodes;
  const bool several = communicator_.nodes > 1;
  const bool one_gpu = communicator_.gpus_per_node() == 1;
  const ByPair& inside = system_.intra == IntraLink::kNvlink ? latencies_.nvlink : latencies_.pci;
  double intra = inside[a][p];
  const bool exposed = version_.minor >= 23 && one_gpu;
  double inter = latencies_.net[exposed ? index(Algorithm::kTree) : a][p];
  if (version_.minor < 18) {
    if (system_.network_latency > 0) inter = system_.network_latency;
    if (several && protocol == Protocol::kLL) intra *= 1.8;
  } else {
    inter += system_.network_latency * (protocol == Protocol::kSimple ? 2 : 1);
  }
  const double base = latencies_.base[a][p];
  if (algorithm == Algorithm::kTree) {
    return base + 2 * ((communicator_.gpus_per_node() - 1) * intra +
                       floor_log2(communicator_.nodes) * inter);
  }
  if (algorithm == Algorithm::kPat) {
    return base + floor_log2(communicator_.nodes) * (inter / 3.5) + ranks * 2.8;
  }
  if (is_pipeline(collective)) {
    const ByPair& hop = several ? latencies_.net : inside;
    return base + ring_steps(collective, communicator_.ranks) *
                      hop[protocol == Protocol::kSimple ? index(Algorithm::kTree) : a][p];
  }
  double overhead = 0;
  if (several && version_.minor >= 18) {
    overhead = environment_.net_overhead_ns
                   ? static_cast<double>(*environment_.net_overhead_ns) * .001
                   : (system_.cpu == CpuVendor::kAmd ? 2.0 : 1.0);
    if (protocol == Protocol::kSimple) overhead *= 3;
  }
  const double steps = ring_steps(collective, communicator_.ranks);
  double between = 0;
  if (several) {
    const bool twice = collective == Collective::kAllReduce;
    // One round trip too many was counted from 2.12 to 2.22.
    const double crossings =
        twice && version_.minor >= 12 && version_.minor < 23 ? nodes : nodes - 1;
    between = twice ? 2 * crossings : nodes - 1;
  }
  return base + (steps - between) * std::max(intra, overhead) + between * inter;
}

TuningPair Tuner::estimate(Collective collective, Algorithm algorithm, Protocol protocol,
                           uint64_t bytes, bool by_name) const {
  TuningPair pair;
  pair.reason = disabled(collective, algorithm, protocol, by_name);
  if (!pair.reason.empty()) return pair;
  pair.enabled = true;
  pair.bandwidth = bandwidth(collective, algorithm, protocol);
  pair.latency = latency(collective, algorithm, protocol);
  const bool newest_tree =
      algorithm == Algorithm::kNvlsTree && system_.gpu == GpuGeneration::kBlackwell;
  if (algorithm == Algorithm::kTree || newest_tree) {
    pair.correction = tree_correction(protocol, bytes);
  }
  if (algorithm == Algorithm::kRing && protocol == Protocol::kSimple && communicator_.nodes > 1 &&
      collective == Collective::kAllReduce) {
    if (version_.minor < 18) {
      if (static_cast<double>(bytes) >= communicator_.ranks / 16.0 * 65536) pair.plateau = 1.9;
    } else if (bytes / (uint64_t{channels_} * communicator_.ranks) >= 64) {
      pair.plateau = system_.gpu == GpuGeneration::kVolta ? 1.9 : 1.4;
    }
  }
  pair.time = pair.latency * pair.plateau +
              static_cast<double>(bytes) / (1000 * pair.bandwidth * pair.correction);
  return pair;
}

uint32_t Tuner::most_threads(Algorithm algorithm, Protocol protocol) const {
  if (protocol == Protocol::kLL128) {
    return threads_between(environment_.ll128_threads, 160, 640, 640);
  }
  const bool slow = version_.minor < 31 && algorithm == Algorithm::kRing &&
                    protocol == Protocol::kSimple &&
                    system_.ring.intra * system_.ring.channels <= kSlowLink;
  return threads_between(environment_.threads, 2 * kWarp, 512, slow ? 256 : 512);
}

uint64_t Tuner::threshold(Algorithm algorithm, Protocol protocol) const {
  if (is_collnet(algorithm)) return kCollnetThreshold;
  if (algorithm == Algorithm::kRing || algorithm == Algorithm::kTree) {
    const auto& wish = environment_.thresholds[index(algorithm)][index(protocol)];
    if (wish) return *wish;
  }
  if (protocol == Protocol::kSimple) return 64;
  const bool ring_ll = algorithm == Algorithm::kRing && protocol == Protocol::kLL;
  return ring_ll ? uint64_t{8} * communicator_.ranks : 8;
}

/// Of CollNet direct, half of whose threshold is enough each time that channels are halved.
uint32_t Tuner::direct_channels(uint64_t bytes) const {
  uint64_t channels = channels_, limit = kCollnetThreshold * kAllThreads;
  const uint64_t heads = system_.collnet_graph.channels;
  const auto few = [&] { return bytes < channels * heads * limit; };
  for (uint64_t half = 16; half >= 1 && few(); half /= 2) {
    for (; few() && channels > half; --channels) {
      if (channels == half + half / 2) limit /= 2;
    }
  }
  return static_cast<uint32_t>(channels);
}

void Tuner::set_size(TuningTable& table, uint64_t bytes) const {
  if (is_nvls(table.algorithm)) {
    table.channels_used = std::min(nvls_channels(system_.gpu, communicator_.nodes), channels_);
    table.threads = kAllThreads;
    return;
  }
  if (table.algorithm == Algorithm::kCollnetDirect) {
    table.channels_used = direct_channels(bytes);
    table.threads = kAllThreads;
    return;
  }
  uint64_t channels = channels_;
  uint32_t threads = most_threads(table.algorithm, table.protocol);
  const uint64_t limit = threshold(table.algorithm, table.protocol);
  while (bytes < channels * threads * limit && channels >= 2) --channels;
  while (bytes < channels * threads * limit && threads % 128 == 0) threads /= 2;
  if (table.protocol == Protocol::kSimple) {
    threads += table.algorithm == Algorithm::kTree ? 4 * kWarp : kWarp;
  }
  threads = std::max(threads, 3 * kWarp);
  if (version_.minor >= 18 && table.algorithm != Algorithm::kRing) threads = 640;
  table.channels_used = static_cast<uint32_t>(channels);
  table.threads = threads;
}

TuningTable Tuner::tune(Collective collective, uint64_t bytes, std::optional<Algorithm> algorithm,
                        std::optional<Protocol> protocol) const {
  TuningTable table;
  table.channels = channels_;
  table.channels_used = channels_;
  // In NCCL's own order, in which the first of equal times wins.
  constexpr Algorithm kAlgorithmOrder[] = {
      Algorithm::kTree,         Algorithm::kRing, Algorithm::kCollnetDirect,
      Algorithm::kCollnetChain, Algorithm::kNvls, Algorithm::kNvlsTree,
      Algorithm::kPat};
  constexpr Protocol kProtocolOrder[] = {Protocol::kLL, Protocol::kLL128, Protocol::kSimple};
  for (const Algorithm a : kAlgorithmOrder) {
    const bool absent = (is_nvls(a) && !system_.nvls) || (is_collnet(a) && !system_.collnet);
    table.offered[index(a)] = !absent || algorithm == a;
    if (!table.offered[index(a)]) continue;
    for (const Protocol p : kProtocolOrder) {
      TuningPair& pair = table.pairs[index(a)][index(p)];
      pair = estimate(collective, a, p, bytes, protocol == p);
      const bool other = (algorithm && *algorithm != a) || (protocol && *protocol != p);
      if (pair.enabled && other) {
        pair.enabled = false;
        pair.reason = "the job asks for another";
      }
      if (!pair.enabled) continue;
      if (!table.chosen || pair.time < table.choice().time) {
        table.chosen = true;
        table.algorithm = a;
        table.protocol = p;
      }
    }
  }
  if (table.chosen) set_size(table, bytes);
  return table;
}

}  // namespace understudy
