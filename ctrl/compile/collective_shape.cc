#include "ctrl/compile/collective_shape.h"

#include <algorithm>
#include <utility>

#include "collective_model/plan/pair_hops.h"
#include "collective_model/plan/symmetric_ranks.h"
#include "collective_model/schedule/all_to_all.h"
#include "ctrl/compile/ways/job_hops.h"
#include "ctrl/compile/ways/node_way.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// What an operation's messages cost, on their ways and beside these.
PlanInput costs_of(const Config& config, const JobConfig& job, const Communicator& communicator,
                   const Operation& operation) {
  PlanInput plan;
  const NodeConfig& first = config.nodes[job.ranks.front()];
  plan.wire = wire_cost(config, first.nics[communicator.first_nic]);
  const bool one_way =
      operation.collective == Collective::kGather || operation.collective == Collective::kScatter;
  if (one_way) plan.wire.beside = 0;  // no rank sends data on the links that it receives by
  plan.step_cost = job.step_cost;
  plan.inside = node_way(config);
  return plan;
}

}  // namespace

PlanInput plan_config(const Config& config, const JobConfig& job, const Communicator& communicator,
                      const Operation& operation,
                      std::vector<std::shared_ptr<const RankSchedule>> ranks,
                      const Topology* topology) {
  PlanInput plan = costs_of(config, job, communicator, operation);
  plan.ranks = std::move(ranks);
  plan.hops = job_hops(config, job, communicator, operation, plan.ranks, topology);
  return plan;
}

PlanInput plan_config(const Config& config, const JobConfig& job, const Communicator& communicator,
                      const Operation& operation, const OperationCut& cut,
                      const std::vector<uint32_t>& real, const Topology* topology) {
  PlanInput plan;
  if (AllToAll::is_one(operation)) {
    plan = costs_of(config, job, communicator, operation);
    plan.all_to_all = std::make_shared<AllToAll>(communicator, operation);
    plan.pair_hops = job_pair_hops(config, job, *plan.all_to_all, topology);
  } else if (SymmetricRanks::is_one(operation)) {
    plan = costs_of(config, job, communicator, operation);
    plan.alike = std::make_shared<SymmetricRanks>(communicator, operation, cut);
    plan.pair_hops = job_pair_hops(config, job, *plan.alike, topology);
  } else {
    plan = plan_config(config, job, communicator, operation,
                       rank_schedules(communicator, operation, cut), topology);
  }
  plan.real = real;
  if (!plan.pair_hops) return plan;
  plan.ranks.resize(communicator.ranks());
  for (const uint32_t rank : real) {
    plan.ranks[rank] = rank_schedule(communicator, operation, cut, rank);
  }
  return plan;
}

std::optional<std::vector<std::vector<FarEnd>>> far_ends_of(const PlanInput& plan) {
  if (plan.pair_hops) {
    ASSERT_INVARIANT(plan.alike != nullptr || plan.all_to_all != nullptr);
    std::vector<std::vector<FarEnd>> ends(plan.ranks.size());
    for (const uint32_t rank : plan.real) {
      ends[rank] =
          plan.alike ? plan.alike->far_ends(rank) : plan.all_to_all->far_ends(*plan.ranks[rank]);
    }
    return ends;
  }
  std::vector<const RankSchedule*> all;
  for (const auto& rank : plan.ranks) all.push_back(rank.get());
  return far_ends(all);
}

Result<std::unique_ptr<CollectiveShape>> make_shape(const PlanInput& plan, uint64_t bytes,
                                                    const std::vector<std::vector<FarEnd>>& far,
                                                    const LinkOf& link_of) {
  ASSERT_INVARIANT(far.size() == plan.ranks.size());
  ASSERT_INVARIANT(std::ranges::is_sorted(plan.real));
  auto shape = std::make_unique<CollectiveShape>();
  shape->bytes = bytes;
  shape->links.resize(plan.ranks.size());
  for (const uint32_t rank : plan.real) {
    shape->real.push_back(plan.ranks[rank]);
    shape->far.push_back(far[rank]);
    const std::vector<Connection>& connections = plan.ranks[rank]->connections();
    for (uint32_t c = 0; c < connections.size(); ++c) {
      const Connection& connection = connections[c];
      if (!connection.network || connection.messages == 0) continue;
      const FarEnd& other = far[rank][c];
      const FarEnd sender = connection.direction == Direction::kSend ? FarEnd{rank, c} : other;
      const Hop hop = plan.pair_hops ? plan.pair_hops->hop(connection.from, connection.to)
                                     : plan.hops[sender.rank][sender.connection];
      const auto link = TRY(
          link_of(connection, rank, other.rank,
                  connection.direction == Direction::kSend ? hop.latency : hop.credit_latency()));
      if (link == CollectiveShape::kUnused) continue;
      shape->links[rank].add(c, link);
      if (shape->uses.size() <= link) shape->uses.resize(link + 1);
      if (shape->uses[link].messages != 0) return fail("two connections are one of NCCL's");
      shape->uses[link] = {c, other.connection, connection.messages};
      if (std::ranges::binary_search(plan.real, other.rank)) continue;
      shape->links[other.rank].add(other.connection, link);
    }
  }
  return shape;
}

Result<void> carry_inner(PlanInput& plan, CollectiveShape& shape,
                         const std::vector<std::vector<FarEnd>>& far, const InnerOf& inner_of) {
  ASSERT_INVARIANT(!plan.pair_hops && far.size() == plan.ranks.size());
  shape.ranks = plan.ranks;
  plan.carried.resize(far.size());
  shape.inner.resize(far.size());
  for (uint32_t r = 0; r < far.size(); ++r) {
    plan.carried[r].resize(far[r].size());
    shape.inner[r].resize(far[r].size(), CollectiveShape::kUnused);
  }
  const auto is_real = [&](uint32_t rank) { return std::ranges::binary_search(plan.real, rank); };
  for (uint32_t r = 0; r < far.size(); ++r) {
    for (uint32_t c = 0; c < far[r].size(); ++c) {
      const Connection& connection = plan.ranks[r]->connections()[c];
      const FarEnd& to = far[r][c];
      if (connection.direction != Direction::kSend || !connection.network) continue;
      if (connection.messages == 0 || is_real(r) || is_real(to.rank)) continue;
      const uint32_t inner = TRY(inner_of(connection));
      plan.carried[r][c] = plan.carried[to.rank][to.connection] = true;
      shape.inner[r][c] = shape.inner[to.rank][to.connection] = inner;
      if (shape.inner_uses.size() <= inner) shape.inner_uses.resize(inner + 1);
      shape.inner_uses[inner] = {c, to.connection, connection.messages};
    }
  }
  return {};
}

}  // namespace understudy
