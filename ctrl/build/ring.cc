#include "ctrl/build/ring.h"

#include <algorithm>
#include <optional>

#include "collective_model/ring_time.h"
#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

constexpr uint32_t kElementBytes = 4;  // fp32

/// Of the two ends' links.
RingHop direct_hop(const NicConfig& from, const NicConfig& to) {
  Rate rate = from.link_rate;
  if (rate.is_unlimited() || (!to.link_rate.is_unlimited() && to.link_rate < rate)) {
    rate = to.link_rate;
  }
  return {rate, from.link_latency + to.link_latency};
}

RingHop path_hop(const Config& config, const Topology& topology, Routes& routes, VertexId from,
                 VertexId to) {
  RingHop hop;
  const std::vector<LinkId> path = routes.path(from, to, flow_hash(from, to, 0));
  for (const LinkId link : path) {
    const GraphLink& l = topology.graph.link(link);
    if (hop.rate.is_unlimited() || l.rate < hop.rate) hop.rate = l.rate;
    hop.latency += l.latency;
    // Store and forward: every link but the slowest one, whose time the message has, adds a packet.
    if (!config.fabric.cut_through) {
      hop.latency += l.rate.time_for(config.queues.network.full_packet_bytes);
    }
  }
  if (!config.fabric.cut_through) {
    hop.latency = hop.latency - hop.rate.time_for(config.queues.network.full_packet_bytes);
  }
  return hop;
}

/// Channels share the links: each gets its part.
std::vector<RingHop> shared(std::vector<RingHop> hops, size_t channels) {
  for (RingHop& hop : hops) hop.rate = Rate::bits_per_second(hop.rate.bps() / channels);
  return hops;
}

}  // namespace

WireCost wire_cost(const Config& config, const NicConfig& nic) {
  WireCost cost;
  cost.mtu = config.fabric.mtu;
  cost.overhead = static_cast<uint32_t>(
      kEthernetOverheadBytes + sizeof(EthHeader) + (nic.vlan ? sizeof(VlanTag) : 0) +
      (nic.v6 && !nic.v4 ? sizeof(Ipv6Header) : sizeof(Ipv4Header)) + sizeof(UdpHeader) +
      sizeof(Bth) + kIcrcBytes);
  return cost;
}

uint32_t real_rank(const Config& config, const JobConfig& job) {
  for (uint32_t r = 0; r < job.ranks.size(); ++r) {
    if (config.nodes[job.ranks[r]].real) return r;
  }
  return 0;
}

std::vector<RingHop> ring_hops(const Config& config, const JobConfig& job,
                               const Topology* topology) {
  std::vector<RingHop> hops;
  std::optional<Routes> routes;
  if (topology != nullptr) routes.emplace(topology->routes(config.seed));
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const NodeId from = job.ranks[r], to = job.ranks[(r + 1) % job.ranks.size()];
    hops.push_back(
        topology == nullptr
            ? direct_hop(config.nodes[from].nics[job.nic], config.nodes[to].nics[job.nic])
            : path_hop(config, *topology, *routes, topology->nics[from][job.nic],
                       topology->nics[to][job.nic]));
  }
  return hops;
}

Result<std::unique_ptr<RingSetup>> build_ring(const Config& config, const JobConfig& job,
                                              bool scheduled, Time start,
                                              const Topology* topology) {
  auto setup = std::make_unique<RingSetup>();
  setup->topology = topology;
  RingJob& ring = setup->job;
  const auto n = static_cast<uint32_t>(job.ranks.size());
  ring.ranks = n;
  ring.real_rank = real_rank(config, job);
  ring.channels = job.channels;
  ring.scheduled = scheduled;
  ring.exact = job.payload == PayloadMode::kExact;
  ring.seed = config.seed;
  ring.step_cost = job.step_cost;
  ring.real_delay = job.skew.empty() ? Duration() : job.skew[ring.real_rank];
  const NicConfig& nic = config.nodes[job.ranks[ring.real_rank]].nics[job.nic];
  const std::vector<RingHop> hops = ring_hops(config, job, topology);
  Time entry = start;
  for (const uint64_t bytes : job.sizes) {
    RingOperation operation;
    operation.bytes = bytes;
    operation.plans.resize(job.channels, nullptr);
    const auto parts = cut_all_reduce(bytes, kElementBytes, job.channels);
    Duration modelled;
    for (size_t c = 0; c < parts.size(); ++c) {
      RingPlanConfig plan{RingSchedule(n, parts[c], kElementBytes),
                          shared(hops, parts.size()),
                          job.skew,
                          {ring.real_rank},
                          wire_cost(config, nic),
                          job.step_cost,
                          scheduled};
      ring.credit_latency = plan.hops[ring.real_rank].latency;
      auto made = RingPlan::make(std::move(plan));
      if (!made) return fail("job \"" + job.name + "\": " + made.error().text);
      setup->plans.push_back(std::make_unique<RingPlan>(std::move(*made)));
      operation.plans[c] = setup->plans.back().get();
      modelled = std::max(modelled, modelled_time(*setup->plans.back(), ring.real_rank));
    }
    for (uint32_t i = 0; i < job.warmup + job.iterations; ++i) {
      operation.entry = entry;
      ring.operations.push_back(operation);
      setup->modelled.push_back(modelled);
      setup->sizes.push_back(bytes);
      setup->iteration.push_back(i);
      setup->warmup.push_back(i < job.warmup);
      entry = entry + modelled + job.interval;
    }
  }
  return setup;
}

}  // namespace understudy
