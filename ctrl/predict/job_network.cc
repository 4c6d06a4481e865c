#include "ctrl/predict/job_network.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "collective_model/nccl/double_tree.h"
#include "ctrl/compile/ways/job_hops.h"
#include "ctrl/compile/ways/nic_ways.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/predict/ring_network.h"
#include "ctrl/validity/drawn_paths.h"

namespace understudy {
namespace {

constexpr uint64_t kMostFlows = 1u << 20;
/// Of rings that are followed one by one; beyond, those of neighbours stand for all channels.
constexpr uint64_t kMostConnections = 1u << 15;

/// A transfer from one of the job's nodes to another; all of one call happen at the same time.
using Visit = std::function<void(uint32_t from, uint32_t to)>;

bool is_pairwise(Collective c) { return function_name(c).empty() && c != Collective::kSendRecv; }

/// Calls `visit` for each transfer of a step. Gives how many of them the busiest node sends (or
/// receives, where one node takes all).
double visit_step(const JobConfig& job, Algorithm algorithm, uint32_t distance,
                  const Visit& visit) {
  const auto n = static_cast<uint32_t>(job.ranks.size());
  if (job.collective == Collective::kGather || job.collective == Collective::kScatter) {
    for (uint32_t i = 1; i < n; ++i) {
      job.collective == Collective::kGather ? visit(i, 0) : visit(0, i);
    }
    return n - 1;
  }
  if (is_pairwise(job.collective)) {
    for (uint32_t i = 0; i < n; ++i) {
      for (uint32_t j = 1; j < n; ++j) visit(i, (i + j) % n);
    }
    return n - 1;
  }
  if (algorithm == Algorithm::kTree || algorithm == Algorithm::kNvlsTree) {
    const DoubleTree trees(n);
    std::vector<uint32_t> sends(n);
    for (uint32_t tree = 0; tree < DoubleTree::kTrees; ++tree) {
      for (uint32_t place = 1; place < n; ++place) {
        const uint32_t a = trees.rank(tree, place), b = trees.rank(tree, trees.parent(place));
        visit(a, b);
        visit(b, a);
        ++sends[a];
        ++sends[b];
      }
    }
    return *std::max_element(sends.begin(), sends.end());
  }
  for (uint32_t i = 0; i < n; ++i) visit(i, (i + distance) % n);
  return 1;
}

/// Bytes per microsecond.
double bytes_per_us(double bits_per_second) { return bits_per_second / 8e6; }

/// Of a full packet on the wire.
uint64_t full_packet(const Config& config) { return config.fabric.mtu + PacketLimits::kHeaders; }

/// The first NIC of each that NCCL sees.
std::vector<unsigned> numbers_of_nics(const Config& config, const JobConfig& job,
                                      const JobNetwork& network) {
  std::vector<unsigned> nics;
  for (uint32_t k = 0; k < network.nics; ++k) nics.push_back(job_nic(config, job, k));
  return nics;
}

/// NIC rates and latencies of neighbours, without a topology.
void count_ends(const Config& config, const JobConfig& job, JobNetwork& network) {
  Duration latency;
  double slowest = 0;
  const std::vector<unsigned> nics = numbers_of_nics(config, job, network);
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const NodeConfig& from = config.nodes[job.ranks[r]];
    const NodeConfig& to = config.nodes[job.ranks[(r + 1) % job.ranks.size()]];
    for (const unsigned nic : nics) {
      const NicConfig &sends = from.nics[nic], &takes = to.nics[nic];
      latency = std::max(
          latency, sends.limits.lead + sends.link_latency + takes.link_latency + takes.limits.tail);
      const Rate merged =
          limited_rate(merged_rate(job, from, nic),
                       nic_limits(config, job, {job.ranks[r], nic}).packets, full_packet(config));
      if (merged.is_unlimited()) continue;
      const auto rate = static_cast<double>(merged.bps());
      slowest = slowest > 0 ? std::min(slowest, rate) : rate;
    }
  }
  network.nic_rate = slowest;
  network.cost.rate = bytes_per_us(slowest) * network.nics;
  network.cost.latency = latency.microseconds();
}

/// Bytes that a NIC could carry in the least time that it takes for a packet.
double least_packet(const Config& config, const JobConfig& job, const JobNetwork& network) {
  const unsigned nic = job_nic(config, job, 0);
  double least = 0;
  for (const NodeId node : job.ranks) {
    const Duration time = nic_limits(config, job, {node, nic}).packets.least;
    least = std::max(least, time.microseconds() * bytes_per_us(network.nic_rate));
  }
  return least;
}

/// The same by the paths that a topology's routing gives.
void count_paths(const Config& config, const JobConfig& job, Algorithm algorithm,
                 const Topology& topology, uint64_t seed, JobNetwork& network) {
  Routes routes = topology.routes(seed);
  const Graph& graph = topology.graph;
  Duration latency;
  double rate = 0;
  const std::vector<unsigned> nics = numbers_of_nics(config, job, network);
  const auto n = static_cast<uint32_t>(job.ranks.size());
  // PAT's rounds are one after another, of distances 1, 2, 4 ...; the slowest one counts.
  const uint32_t farthest = algorithm == Algorithm::kPat ? n - 1 : 1;
  for (uint32_t distance = 1; distance <= farthest; distance *= 2) {
    std::vector<double> load(graph.links().size());
    const double sends = visit_step(job, algorithm, distance, [&](uint32_t from, uint32_t to) {
      for (const unsigned nic : nics) {
        const NodeId sender = job.ranks[from], receiver = job.ranks[to];
        const uint32_t out = merged_nics(job, config.nodes[sender], nic);
        const uint32_t in = merged_nics(job, config.nodes[receiver], nic);
        const uint32_t parts = std::max(out, in);
        for (uint32_t part = 0; part < parts; ++part) {
          const VertexId a = topology.nics[sender][nic + part % out];
          const VertexId b = topology.nics[receiver][nic + part % in];
          Duration way = config.nodes[sender].nics[nic].limits.lead +
                         config.nodes[receiver].nics[nic].limits.tail;
          for (const LinkId link : routes.path(a, b, flow_hash(a, b, 0))) {
            way += graph.link(link).latency;
            load[link] += 1.0 / parts;
          }
          latency = std::max(latency, way);
        }
      }
    });
    double longest = 0;  // us per byte of every transfer
    for (LinkId link = 0; link < load.size(); ++link) {
      if (load[link] == 0) continue;
      const Rate rate = graph.link(link).rate_for(full_packet(config));
      const double speed = bytes_per_us(static_cast<double>(rate.bps()));
      longest = std::max(longest, load[link] / speed);
    }
    if (longest <= 0) continue;
    const double node = sends * network.nics / longest;
    rate = rate > 0 ? std::min(rate, node) : node;
  }
  const double ends = bytes_per_us(network.nic_rate) * network.nics;
  if (ends > 0) network.share = std::min(rate / ends, 1.0);
  network.cost.rate = rate;
  network.cost.latency = latency.microseconds();
}

bool is_ring(const JobConfig& job, Algorithm algorithm) {
  return !function_name(job.collective).empty() && algorithm == Algorithm::kRing;
}

void count_ring(const Config& config, const JobConfig& job, uint32_t channels,
                const Topology* topology, uint64_t seed, const WireCost& wire,
                JobNetwork& network) {
  const RingNetwork ring = ring_network(config, job, channels, topology, seed);
  NetworkCost& cost = network.cost;
  cost.rate = ring.rate * channels;
  cost.latency = ring.latency;
  // And an acknowledgement.
  const double credit = std::max<double>(wire.beside, wire.beside == 0 ? 0 : 2 * cost.least_packet);
  cost.farthest = ring.farthest;
  if (ring.slowest > 0) cost.credit_wire = credit / ring.slowest;
  cost.alone_rate = ring.slowest;
  network.share = ring.share;
  network.sharing = ring.sharing;
  network.colliding = ring.colliding;
  network.collision = ring.collision;
}

JobNetwork network_of_seed(const Config& config, const JobConfig& job, Algorithm algorithm,
                           uint32_t channels, const Topology* topology, uint64_t seed) {
  JobNetwork network;
  network.nics = job_nics(config, job);
  const NodeConfig& first = config.nodes[job.ranks[0]];
  if (job.ranks.size() < 2 || first.nics.empty()) return network;
  const WireCost wire = wire_cost(config, first.nics[job_nic(config, job, 0)]);
  network.cost.wire_per_byte = static_cast<double>(wire.mtu + wire.overhead) / wire.mtu;
  network.cost.wire_per_message = wire.first_extra + wire.last_extra + wire.beside;
  if (!config.calibration) {
    network.cost.mtu = wire.mtu;
    network.cost.overhead = wire.overhead;
  }
  count_ends(config, job, network);
  network.cost.least_packet = least_packet(config, job, network);
  // An acknowledgement and a credit are a packet each.
  const double beside = std::max<double>(wire.beside, 2 * network.cost.least_packet);
  if (wire.beside != 0) network.cost.wire_per_message += beside - wire.beside;
  const uint64_t n = job.ranks.size();
  if (counts_channels(config, job, algorithm, channels)) {
    count_ring(config, job, channels, topology, seed, wire, network);
    return network;
  }
  if (!config.calibration) network.cost.farthest = network.cost.latency;
  if (topology == nullptr) return network;
  network.all_pairs = !is_pairwise(job.collective) || n * n * network.nics <= kMostFlows;
  if (network.all_pairs) {
    count_paths(config, job, algorithm, *topology, seed, network);
    if (!config.calibration) network.cost.farthest = network.cost.latency;
  }
  return network;
}

}  // namespace

bool counts_channels(const Config& config, const JobConfig& job, Algorithm algorithm,
                     uint32_t channels) {
  return !config.calibration && is_ring(job, algorithm) &&
         uint64_t{job.ranks.size()} * channels <= kMostConnections;
}

JobNetwork job_network(const Config& config, const JobConfig& job, Algorithm algorithm,
                       uint32_t channels, const Topology* topology) {
  return network_of_seed(config, job, algorithm, channels, topology, config.seed);
}

bool network_is_drawn(const Config& config, const JobConfig& job, Algorithm algorithm,
                      uint32_t channels, const Topology* topology, const JobNetwork& own) {
  if (topology == nullptr || !hash_chooses(*topology)) return false;
  constexpr uint64_t kManyFlows = 1u << 16;
  const uint64_t n = job.ranks.size();
  const uint64_t flows = is_pairwise(job.collective) ? n * n : n * own.nics;
  const uint64_t others = flows > kManyFlows ? 1 : 4;
  for (uint64_t more = 1; more <= others; ++more) {
    const JobNetwork other =
        network_of_seed(config, job, algorithm, channels, topology, config.seed + more);
    if (other.cost.rate != own.cost.rate || other.cost.latency != own.cost.latency) return true;
  }
  return false;
}

}  // namespace understudy
