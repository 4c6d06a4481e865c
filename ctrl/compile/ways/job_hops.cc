#include "ctrl/compile/ways/job_hops.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "collective_model/nccl/p2p_rounds.h"
#include "ctrl/compile/ways/nic_ways.h"
#include "dataplane/base/assert.h"
#include "dataplane/collective/packet_level_ranks.h"
#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

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
  if (config.fabric.control_class == ControlClass::kSeparate) return cost;
  const auto credit = static_cast<uint32_t>(sizeof(Reth)) + PacketLevelRanksSettings().credit_bytes;
  cost.beside = cost.overhead + static_cast<uint32_t>(sizeof(Aeth)) + cost.overhead + credit;
  return cost;
}

std::vector<std::vector<Hop>> job_hops(
    const Config& config, const JobConfig& job, const Communicator& communicator,
    const Operation& operation, const std::vector<std::shared_ptr<const RankSchedule>>& ranks,
    const Topology* topology) {
  ASSERT_INVARIANT(job.ranks.size() == communicator.nodes);
  ASSERT_INVARIANT(ranks.size() == communicator.ranks());
  std::map<JobNic, Together> out, in;
  std::map<std::pair<JobNic, JobNic>, Together> pairs;
  const auto nics_of = [&](const Connection& c) {
    const JobNic from{job.ranks[communicator.node_of(c.from)], communicator.nic_of(c.from)};
    const JobNic to{job.ranks[communicator.node_of(c.to)], communicator.nic_of(c.to)};
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
  NicWays ways(config, job, topology);
  std::map<std::pair<JobNic, JobNic>, Hop> known;
  std::vector<std::vector<Hop>> hops;
  for (const auto& rank : ranks) {
    std::vector<Hop>& own = hops.emplace_back(rank->connections().size());
    for (size_t c = 0; c < own.size(); ++c) {
      const Connection& connection = rank->connections()[c];
      if (!sends(connection) || connection.messages == 0) continue;
      const auto [from, to] = nics_of(connection);
      const auto [it, fresh] = known.try_emplace({from, to});
      if (fresh) {
        it->second = shared_hop(ways.between(from, to), pairs.at({from, to}).number(),
                                out.at(from).number(), in.at(to).number(),
                                nic_limits(config, job, from), nic_limits(config, job, to));
      }
      own[c] = it->second;
    }
  }
  return hops;
}

}  // namespace understudy
