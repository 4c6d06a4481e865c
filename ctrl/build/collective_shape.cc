#include "ctrl/build/collective_shape.h"

#include <algorithm>
#include <utility>

#include "ctrl/build/job_hops.h"
#include "ctrl/build/node_way.h"

namespace understudy {

EnvironmentConfig plan_config(const Config& config, const JobConfig& job,
                              const Communicator& communicator, const Operation& operation,
                              std::vector<std::shared_ptr<const RankSchedule>> ranks,
                              const Topology* topology) {
  EnvironmentConfig plan;
  plan.ranks = std::move(ranks);
  plan.hops = job_hops(config, job, communicator, operation, plan.ranks, topology);
  const NodeConfig& first = config.nodes[job.ranks.front()];
  plan.wire = wire_cost(config, first.nics[communicator.first_nic]);
  plan.step_cost = job.step_cost;
  plan.inside = node_way(config);
  return plan;
}

Result<std::unique_ptr<CollectiveShape>> make_shape(const EnvironmentConfig& plan, uint64_t bytes,
                                                    const std::vector<std::vector<FarEnd>>& far,
                                                    const LinkOf& link_of) {
  auto shape = std::make_unique<CollectiveShape>();
  shape->bytes = bytes;
  shape->links.resize(plan.ranks.size());
  for (const uint32_t rank : plan.real) {
    shape->real.push_back(plan.ranks[rank]);
    shape->far.push_back(far[rank]);
    const std::vector<Connection>& connections = plan.ranks[rank]->connections();
    shape->links[rank].assign(connections.size(), CollectiveShape::kUnused);
    for (uint32_t c = 0; c < connections.size(); ++c) {
      const Connection& connection = connections[c];
      if (!connection.network || connection.messages == 0) continue;
      const FarEnd& other = far[rank][c];
      const bool sends = connection.direction == Direction::kSend;
      const RingHop& hop = sends ? plan.hops[rank][c] : plan.hops[other.rank][other.connection];
      const auto link = link_of(connection, rank, other.rank, hop.latency);
      if (!link) return tl::unexpected(link.error());
      shape->links[rank][c] = *link;
      if (*link == CollectiveShape::kUnused) continue;
      if (shape->uses.size() <= *link) shape->uses.resize(*link + 1);
      if (shape->uses[*link].messages != 0) return fail("two connections are one of NCCL's");
      shape->uses[*link] = {c, other.connection, connection.messages};
      if (std::ranges::binary_search(plan.real, other.rank)) continue;
      std::vector<uint32_t>& theirs = shape->links[other.rank];
      theirs.resize(plan.ranks[other.rank]->connections().size(), CollectiveShape::kUnused);
      theirs[other.connection] = *link;
    }
  }
  return shape;
}

}  // namespace understudy
