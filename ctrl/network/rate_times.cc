#include "ctrl/network/rate_times.h"

#include <vector>

#include "ctrl/compile/rank_job.h"
#include "ctrl/network/lone_rates.h"
#include "ctrl/network/rank_reports.h"
#include "ctrl/schedule/job_schedule.h"
#include "ctrl/traffic/flow_routes.h"
#include "dataplane/base/try.h"
#include "dataplane/flows/flow_model.h"

namespace understudy {
namespace {

/// The job's one operation of this size, which is a question of its own.
JobConfig one_operation(const JobConfig& job, uint64_t bytes) {
  JobConfig one = job;
  one.sizes = {bytes};
  one.group = false;
  one.iterations = 1;
  one.warmup = 0;
  one.iteration = {};
  one.skew.assign(one.ranks.size(), Duration());
  one.interval = one.period = Duration();
  one.start = Time::zero();
  one.after.clear();
  return one;
}

/// Over the network, until there are more than `most`.
Result<uint64_t> count_messages(const Config& config, const JobConfig& job, uint64_t most) {
  const auto schedules = TRY(job_schedules(config, job));
  const Communicator communicator = job_communicator(config, job);
  uint64_t messages = 0;
  for (uint32_t rank = 0; rank < communicator.ranks() && messages <= most; ++rank) {
    const auto part = rank_part(communicator, job, schedules, 0, rank);
    for (const Connection& c : part->connections()) {
      if (c.network && c.direction == Direction::kSend) messages += c.messages * job.merged_nics;
    }
  }
  return messages;
}

}  // namespace

Result<std::optional<RankOperationReport>> time_by_rates(const Config& config, const JobConfig& job,
                                                         uint64_t bytes, const Topology& topology,
                                                         uint64_t most) {
  const JobConfig one = one_operation(job, bytes);
  const uint64_t messages = TRY(count_messages(config, one, most));
  if (messages > most) return std::nullopt;
  std::vector<FlowSpec> flows;
  uint32_t connections = 0;
  const RankJob ranks = TRY(build_rank_job(config, one, topology, flows, connections));
  const FlowSenders senders = TRY(flow_senders(config, topology, flows));
  FlowModel model(topology.graph, flows, senders, config.queues.flows,
                  config.queues.network.cut_through);
  LoneRates network(model, {ranks.ranks.get()});
  TRY(run_alone(network, topology.graph, config.path));
  return rank_job_report(one, ranks).operations.front();
}

}  // namespace understudy
