#include "ctrl/session/operation_maker.h"

#include <algorithm>

#include "collective_model/channel_cut.h"
#include "ctrl/build/job_hops.h"
#include "ctrl/build/job_schedule.h"
#include "ctrl/build/node_way.h"

namespace understudy {

std::string text_of(const Operation& o) {
  std::string text = std::string(name_of(kCollectiveNames, o.collective)) + " " +
                     std::string(name_of(kAlgorithmNames, o.algorithm)) + " " +
                     std::string(name_of(kProtocolNames, o.protocol)) + " of " +
                     std::to_string(o.bytes()) + " B";
  if (o.collective == Collective::kBroadcast || o.collective == Collective::kReduce) {
    text += ", root " + std::to_string(o.root);
  }
  return text;
}

bool same(const Operation& a, const Operation& b) {
  return a.collective == b.collective && a.algorithm == b.algorithm && a.protocol == b.protocol &&
         a.type == b.type && a.count == b.count && a.root == b.root && a.channels == b.channels &&
         a.threads == b.threads;
}

OperationMaker::OperationMaker(const Config& config, const JobConfig& job, const Topology* topology,
                               const CollectiveJob& told, bool strict)
    : config_(config),
      job_(job),
      topology_(topology),
      told_(told),
      communicator_(job_communicator(config, job)),
      strict_(strict) {}

Result<std::unique_ptr<ReactiveOperation>> OperationMaker::make(const Operation& operation) const {
  if (auto known = check_operation(communicator_, operation); !known) {
    return tl::unexpected(known.error());
  }
  const auto cut = cut_group(communicator_, {&operation, 1});
  if (!cut) return tl::unexpected(cut.error());
  EnvironmentConfig plan;
  plan.ranks = rank_schedules(communicator_, operation, (*cut)[0]);
  plan.real = told_.real;
  plan.hops = job_hops(config_, job_, communicator_, operation, plan.ranks, topology_);
  plan.wire = wire_cost(config_, config_.nodes[job_.ranks.front()].nics[communicator_.first_nic]);
  plan.step_cost = job_.step_cost;
  plan.inside = node_way(config_);

  std::vector<const RankSchedule*> all;
  for (const auto& rank : plan.ranks) all.push_back(rank.get());
  const auto far = far_ends(all);
  if (!far) return fail("a connection has one end only");
  auto shape = std::make_unique<CollectiveShape>();
  shape->bytes = operation.bytes();
  shape->uses.resize(told_.links.size());
  shape->links.resize(all.size());
  for (const uint32_t rank : told_.real) {
    shape->real.push_back(plan.ranks[rank]);
    shape->far.push_back((*far)[rank]);
    const std::vector<Connection>& connections = all[rank]->connections();
    for (uint32_t c = 0; c < connections.size(); ++c) {
      const Connection& connection = connections[c];
      if (!connection.network || connection.messages == 0) continue;
      const FarEnd& other = (*far)[rank][c];
      const auto found = std::ranges::find_if(told_.links, [&](const CollectiveLink& l) {
        return l.channel == connection.channel && l.index == connection.index && l.real == rank &&
               l.far == other.rank &&
               l.real_sends == (connection.direction == Direction::kSend);
      });
      if (found == told_.links.end()) {
        if (!strict_) continue;
        return fail("the job has no connection from rank " + std::to_string(connection.from) +
                    " to rank " + std::to_string(connection.to) + " on channel " +
                    std::to_string(connection.channel));
      }
      const auto link = static_cast<uint32_t>(found - told_.links.begin());
      std::vector<uint32_t>& theirs = shape->links[other.rank];
      theirs.resize(all[other.rank]->connections().size(), CollectiveShape::kUnused);
      theirs[other.connection] = link;
      shape->uses[link] = {c, other.connection, connection.messages};
    }
  }
  auto made = make_plan(std::move(plan));
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<ReactiveOperation>(told_, std::move(shape), std::move(*made));
}

}  // namespace understudy
