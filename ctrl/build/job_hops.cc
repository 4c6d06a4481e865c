#include "ctrl/build/job_hops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "collective_model/p2p_rounds.h"
#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

/// A NIC of a job's node.
using Nic = std::pair<NodeId, uint32_t>;

/// The way between two NICs, and the rates at its ends.
struct Way {
  Rate first, last, slowest;
  Duration latency;
};

Rate slower(Rate a, Rate b) {
  if (a.is_unlimited()) return b;
  return b.is_unlimited() || a < b ? a : b;
}

Rate share(Rate rate, uint64_t parts) {
  return rate.is_unlimited() ? rate : Rate::bits_per_second(rate.bps() / parts);
}

class Ways {
 public:
  Ways(const Config& config, const Topology* topology) : config_(config), topology_(topology) {
    if (topology != nullptr) routes_.emplace(topology->routes(config.seed));
  }

  const Way& between(Nic from, Nic to) {
    const auto [it, fresh] = known_.try_emplace({from, to});
    if (fresh) it->second = topology_ == nullptr ? direct(from, to) : path(from, to);
    return it->second;
  }

 private:
  Way direct(Nic from, Nic to) const {
    const NicConfig& a = config_.nodes[from.first].nics[from.second];
    const NicConfig& b = config_.nodes[to.first].nics[to.second];
    return {a.link_rate, b.link_rate, slower(a.link_rate, b.link_rate),
            a.link_latency + b.link_latency};
  }
  Way path(Nic from, Nic to) {
    const VertexId a = topology_->nics[from.first][from.second];
    const VertexId b = topology_->nics[to.first][to.second];
    Way way;
    const uint64_t full = config_.queues.network.full_packet_bytes;
    for (const LinkId link : routes_->path(a, b, flow_hash(a, b, 0))) {
      const GraphLink& l = topology_->graph.link(link);
      if (way.slowest.is_unlimited()) way.first = l.rate;
      way.last = l.rate;
      way.slowest = slower(way.slowest, l.rate);
      way.latency += l.latency;
      // Store and forward: every link but the slowest one, whose time the message has, adds a
      // packet.
      if (!config_.fabric.cut_through) way.latency += l.rate.time_for(full);
    }
    if (!config_.fabric.cut_through) way.latency = way.latency - way.slowest.time_for(full);
    return way;
  }

  const Config& config_;
  const Topology* topology_;
  std::optional<Routes> routes_;
  std::map<std::pair<Nic, Nic>, Way> known_;
};

/// Connections that send (or receive) at the same time, of those that are counted.
class Together {
 public:
  explicit Together(const Operation& operation)
      : most_(is_p2p(operation.collective)             ? kP2pBatch
              : operation.algorithm == Algorithm::kPat ? 1
                                                       : ~uint64_t{0}) {}
  void add(uint32_t channel) { ++count_[channel]; }
  uint64_t number() const {
    uint64_t all = 0;
    for (const auto& [channel, count] : count_) all += std::min(count, most_);
    return std::max<uint64_t>(all, 1);
  }

 private:
  uint64_t most_;
  std::map<uint32_t, uint64_t> count_;  ///< by channel
};

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

std::vector<std::vector<RingHop>> job_hops(
    const Config& config, const JobConfig& job, const Communicator& communicator,
    const Operation& operation, const std::vector<std::shared_ptr<const RankSchedule>>& ranks,
    const Topology* topology) {
  std::map<Nic, Together> out, in;
  std::map<std::pair<Nic, Nic>, Together> pairs;
  const auto nics_of = [&](const Connection& c) {
    const Nic from{job.ranks[communicator.node_of(c.from)], communicator.nic_of(c.from)};
    const Nic to{job.ranks[communicator.node_of(c.to)], communicator.nic_of(c.to)};
    return std::pair{from, to};
  };
  const auto sends = [](const Connection& c) {
    return c.network && c.direction == Direction::kSend;
  };
  for (const auto& rank : ranks) {
    for (const Connection& c : rank->connections()) {
      if (!sends(c) || c.messages == 0) continue;
      const auto [from, to] = nics_of(c);
      out.try_emplace(from, operation).first->second.add(c.channel);
      in.try_emplace(to, operation).first->second.add(c.channel);
      pairs.try_emplace({from, to}, operation).first->second.add(c.channel);
    }
  }
  Ways ways(config, topology);
  std::vector<std::vector<RingHop>> hops;
  for (const auto& rank : ranks) {
    std::vector<RingHop>& own = hops.emplace_back(rank->connections().size());
    for (size_t c = 0; c < own.size(); ++c) {
      const Connection& connection = rank->connections()[c];
      if (!sends(connection) || connection.messages == 0) continue;
      const auto [from, to] = nics_of(connection);
      const Way& way = ways.between(from, to);
      own[c].latency = way.latency;
      own[c].rate = slower(
          share(way.slowest, pairs.at({from, to}).number()),
          slower(share(way.first, out.at(from).number()), share(way.last, in.at(to).number())));
    }
  }
  return hops;
}

}  // namespace understudy
