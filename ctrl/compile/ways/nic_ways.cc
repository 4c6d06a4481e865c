#include "ctrl/compile/ways/nic_ways.h"

#include <algorithm>

#include "ctrl/config/merged_nics.h"
#include "dataplane/base/assert.h"

namespace understudy {

namespace {

Rate together(Rate rate, uint64_t lanes) {
  return rate.is_unlimited() ? rate : Rate::bits_per_second(rate.bps() * lanes);
}

}  // namespace

bool acks_wait(const Config& config, const JobConfig& job) {
  return std::ranges::any_of(job.ranks, [&](NodeId node) {
    return std::ranges::any_of(config.nodes[node].nics,
                               [](const NicConfig& nic) { return nic.limits.acks_wait(); });
  });
}

NicLimits nic_limits(const Config& config, const JobConfig& job, JobNic nic) {
  const NodeConfig& node = config.nodes[nic.first];
  NicLimits limits = node.nics[nic.second].limits;
  const uint32_t merged = merged_nics(job, node, nic.second);
  limits.packets.least = limits.packets.least / int64_t{merged};
  limits.packets.pcie = together(limits.packets.pcie, merged);
  return limits;
}

Hop shared_hop(const NicWay& way, uint64_t pairs, uint64_t out, uint64_t in, const NicLimits& from,
               const NicLimits& to) {
  Hop hop;
  hop.rate = shared_rate(way, pairs, out, in);
  const auto sends = static_cast<int64_t>(out), takes = static_cast<int64_t>(in);
  hop.limits.least = std::max(from.packets.least * sends, to.packets.least * takes);
  hop.limits.pcie = slower(share(from.packets.pcie, out), share(to.packets.pcie, in));
  hop.latency = from.lead + way.latency + to.tail;
  hop.credit_more = to.lead + from.tail - from.lead - to.tail;
  hop.ack_more = to.ack_delay + from.tail - from.lead - to.tail * 2;
  return hop;
}

NicWays::NicWays(const Config& config, const JobConfig& job, const Topology* topology)
    : config_(config), job_(job), topology_(topology) {
  if (topology != nullptr) routes_.emplace(topology->routes(config.seed));
}

NicWay NicWays::between(JobNic from, JobNic to) {
  ASSERT_INVARIANT(from.first < config_.nodes.size() && to.first < config_.nodes.size());
  return topology_ == nullptr ? direct(from, to) : path(from, to);
}

NicWay NicWays::direct(JobNic from, JobNic to) const {
  const NodeConfig &a = config_.nodes[from.first], &b = config_.nodes[to.first];
  const Rate first = merged_rate(job_, a, from.second), last = merged_rate(job_, b, to.second);
  return {first, last, slower(first, last),
          a.nics[from.second].link_latency + b.nics[to.second].link_latency};
}

/// Messages are cut in equal parts, so that the slowest lane counts.
NicWay NicWays::path(JobNic from, JobNic to) {
  const uint32_t out = merged_nics(job_, config_.nodes[from.first], from.second);
  const uint32_t in = merged_nics(job_, config_.nodes[to.first], to.second);
  NicWay way = lane(from, to);
  const uint32_t lanes = std::max(out, in);
  for (uint32_t i = 1; i < lanes; ++i) {
    const NicWay other = lane({from.first, from.second + i % out}, {to.first, to.second + i % in});
    way.first = slower(way.first, other.first);
    way.last = slower(way.last, other.last);
    way.slowest = slower(way.slowest, other.slowest);
    way.latency = std::max(way.latency, other.latency);
  }
  way.first = together(way.first, out);
  way.last = together(way.last, in);
  way.slowest = slower(together(way.slowest, lanes), slower(way.first, way.last));
  return way;
}

NicWay NicWays::lane(JobNic from, JobNic to) {
  ASSERT_INVARIANT(topology_ != nullptr && routes_.has_value());
  const VertexId a = topology_->nics[from.first][from.second];
  const VertexId b = topology_->nics[to.first][to.second];
  NicWay way;
  Duration slowest;
  const uint64_t full = config_.queues.network.full_packet_bytes;
  for (const LinkId link : routes_->path(a, b, flow_hash(a, b, 0))) {
    const GraphLink& l = topology_->graph.link(link);
    if (way.slowest.is_unlimited()) way.first = l.rate;
    way.last = l.rate;
    way.slowest = slower(way.slowest, l.rate);
    way.latency += l.latency;
    // Store and forward: every link but the slowest one, whose time the message has, adds a packet.
    if (config_.fabric.cut_through) continue;
    way.latency += l.time_for(full);
    slowest = std::max(slowest, l.time_for(full));
  }
  way.latency = way.latency - slowest;
  return way;
}

}  // namespace understudy
