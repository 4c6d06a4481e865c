#include "ctrl/compile/rank_job.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "ctrl/compile/ways/node_way.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"
#include "dataplane/wire/headers.h"

namespace understudy {
PacketLevelRanksSettings rank_traffic_settings(const Config& config, const JobConfig& job) {
  PacketLevelRanksSettings settings;
  settings.step_cost = job.step_cost;
  settings.priority =
      config.queues.network.priorities.priority_of(job.sender.traffic_class, std::nullopt);
  settings.ect = (job.sender.traffic_class & 3) != 0;
  settings.control = job.sender.control;
  settings.first_header = sizeof(Reth);
  settings.last_header = kImmBytes;
  settings.inside = node_way(config);
  return settings;
}

MessageWays job_ways(const Config& config, const JobConfig& job, const Communicator& communicator,
                     const Topology& topology, const Connection& connection) {
  const auto nics_of = [&](uint32_t rank, uint32_t first) {
    const NodeId node = job.ranks[communicator.node_of(rank)];
    const std::vector<VertexId>& all = topology.nics[node];
    ASSERT_INVARIANT(first < all.size());
    return std::span(all).subspan(first, merged_nics(job, config.nodes[node], first));
  };
  const uint32_t from = connection.from, to = connection.to;
  const uint32_t sends =
      connection.relayed ? communicator.p2p_nic(from, to) : communicator.nic_of(from);
  return message_ways(nics_of(from, sends), nics_of(to, communicator.nic_of(to)));
}

Result<RankJob> build_rank_job(const Config& config, const JobConfig& job, const Topology& topology,
                               std::vector<FlowSpec>& flows, uint32_t& first_connection) {
  const auto error = [&](const std::string& text) {
    return fail(config.path + ":" + std::to_string(job.line) + ": job: " + text);
  };
  const auto schedules = TRY(job_schedules(config, job));
  const Communicator communicator = job_communicator(config, job);
  RankJob out;
  out.communicator = communicator;
  const JobWork work(config, job, communicator.gpus);
  out.operations = work.operations();
  for (const JobSchedule& schedule : schedules) {
    out.sizes.push_back(schedule.bytes);
    if (!is_collnet(schedule.operation.algorithm)) continue;
    return error("NCCL chooses " +
                 std::string(name_of(kAlgorithmNames, schedule.operation.algorithm)) +
                 ", of whose switches no packets are modelled: give an algorithm, or [nccl] "
                 "collnet = false");
  }
  if (job.group) out.sizes = {std::accumulate(out.sizes.begin(), out.sizes.end(), uint64_t{0})};
  for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
    out.work.push_back(work.rank(rank));
  }
  ASSERT_INVARIANT(out.work.size() == communicator.ranks());
  std::vector<RankOperation> operations;
  for (size_t o = 0; o < out.operations.size(); ++o) {
    RankOperation made;
    for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
      made.ranks.push_back(rank_part(communicator, job, schedules, out.operations[o].size, rank));
      for (const Connection& connection : made.ranks.back()->connections()) {
        if (connection.network && connection.direction == Direction::kSend) {
          out.messages += connection.messages;
        }
      }
      const uint32_t parts = job.merged_nics * (job.split_data ? job.queue_pairs : 1);
      if (out.messages * parts > kMostMessages) {
        return error("more than " + std::to_string(kMostMessages) +
                     " messages, one by one: take fewer or smaller operations");
      }
      made.steps.push_back(out.work[rank].steps[o]);
    }
    operations.push_back(std::move(made));
  }
  out.ranks =
      std::make_unique<PacketLevelRanks>(std::move(operations), rank_traffic_settings(config, job));
  const auto ways_of = [&](const Connection& connection) {
    MessageWays ways = job_ways(config, job, communicator, topology, connection);
    (job.split_data ? ways.count : ways.turns) *= job.queue_pairs;
    return ways;
  };
  first_connection = out.ranks->add_flows(flows, ways_of, first_connection);
  return out;
}

}  // namespace understudy
