// NCCL's choice of algorithm, protocol, channels and threads for an operation: the algorithm with
// the least estimated time, latency + bytes / bandwidth, both from published constants and from
// what NCCL found in the nodes (its graphs). Facts: docs/nccl 2.6 and 4, NCCL's
// src/graph/tuning.cc and src/enqueue.cc. NVLS and CollNet are chosen where the machine is said to
// have them, for all-reduce.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/nccl/operation.h"
#include "collective_model/tuner/nccl_environment.h"
#include "collective_model/tuner/tuning_constants.h"

namespace understudy {

/// What NCCL's search found for rings or trees, as NCCL_DEBUG_SUBSYS=GRAPH prints it.
struct NcclGraph {
  uint32_t channels = 1;
  double intra = 20;  ///< GB/s of a channel inside a node ...
  double inter = 12;  ///< ... and between nodes
  /// Rings pass from GPU to GPU through a third one, from whose memory the receiver reads.
  bool bridged = false;
};

/// The machine as NCCL sees it.
struct NcclSystem {
  GpuGeneration gpu = GpuGeneration::kAmpere;
  CpuVendor cpu = CpuVendor::kIntel;
  IntraLink intra = IntraLink::kNvlink;
  NcclGraph ring, tree;
  uint32_t channels = 1;       ///< of the communicator, before NCCL_MIN/MAX_NCHANNELS
  bool ll128 = true;           ///< paths between GPUs and NICs are such that LL128 is safe
  double network_latency = 0;  ///< us, that the network plugin tells of its NICs
  /// The node's NVSwitches reduce and copy, and what the search found for their heads.
  bool nvls = false;
  NcclGraph nvls_graph;
  /// The network's switches reduce (SHARP), and the same for CollNet.
  bool collnet = false;
  NcclGraph collnet_graph;
};

struct CommunicatorSize {
  uint32_t ranks = 2, nodes = 1;
  uint32_t gpus_per_node() const { return ranks / nodes; }
};

/// One algorithm with one protocol.
struct TuningPair {
  bool enabled = false;
  std::string reason;     ///< why it is not
  double latency = 0;     ///< us
  double bandwidth = 0;   ///< GB/s, of the operation's bytes, before the correction
  double correction = 1;  ///< that a tree's bandwidth is multiplied with at this size
  double plateau = 1;     ///< that a ring's latency is multiplied with at this size
  double time = 0;        ///< us
};

struct TuningTable {
  /// What the machine can do at all, or was asked for.
  std::array<bool, kAlgorithms> offered{};
  std::array<std::array<TuningPair, kProtocols>, kAlgorithms> pairs;  ///< by algorithm, protocol
  uint32_t channels = 0;                                              ///< of the communicator
  bool chosen = false;                                                ///< one pair was enabled
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  uint32_t channels_used = 0;
  uint32_t threads = 0;  ///< of a channel's block, those that only synchronise included
  const TuningPair& choice() const { return pairs[index(algorithm)][index(protocol)]; }
};

class Tuner {
 public:
  Tuner(NcclSystem system, CommunicatorSize communicator, NcclVersion version,
        NcclEnvironment environment = {});

  /// `bytes` as nccl-tests count them. A given algorithm or protocol is the only one allowed, as by
  /// NCCL_ALGO and NCCL_PROTO. For collectives of point-to-point messages there is nothing to
  /// choose: the table has no pair and `chosen` stays false.
  TuningTable tune(Collective collective, uint64_t bytes, std::optional<Algorithm> algorithm = {},
                   std::optional<Protocol> protocol = {}) const;

  /// Channels of the communicator, the environment's limits included.
  uint32_t channels() const { return channels_; }
  const CommunicatorSize& communicator() const { return communicator_; }
  const NcclSystem& system() const { return system_; }
  NcclVersion version() const { return version_; }
  const NcclEnvironment& environment() const { return environment_; }

 private:
  TuningPair estimate(Collective collective, Algorithm algorithm, Protocol protocol, uint64_t bytes,
                      bool by_name) const;
  /// Why a pair is out of the question, or nothing. `by_name`: the job asks for this protocol,
  /// which allows it as NCCL_PROTO does.
  std::string disabled(Collective collective, Algorithm algorithm, Protocol protocol,
                       bool by_name) const;
  double bandwidth(Collective collective, Algorithm algorithm, Protocol protocol) const;
  /// Why an algorithm of switches is out of the question, or nothing.
  std::string no_switch(Collective collective, Algorithm algorithm, Protocol protocol) const;
  /// Bus bandwidth, and latency, of such a one.
  double switch_bandwidth(Algorithm algorithm) const;
  double switch_latency(Algorithm algorithm) const;
  double latency(Collective collective, Algorithm algorithm, Protocol protocol) const;
  uint32_t most_threads(Algorithm algorithm, Protocol protocol) const;
  uint64_t threshold(Algorithm algorithm, Protocol protocol) const;
  uint32_t direct_channels(uint64_t bytes) const;
  void set_size(TuningTable& table, uint64_t bytes) const;

  NcclSystem system_;
  CommunicatorSize communicator_;
  NcclVersion version_;
  NcclEnvironment environment_;
  uint32_t channels_;
  LatencyConstants latencies_;
  BandwidthLimits limits_;
};

}  // namespace understudy
