#include "ctrl/build/rank_job.h"

#include <algorithm>
#include <utility>

#include "ctrl/build/job_schedule.h"
#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

RankTrafficSettings settings_of(const Config& config, const JobConfig& job) {
  RankTrafficSettings settings;
  settings.step_cost = job.step_cost;
  settings.priority =
      config.queues.network.priorities.priority_of(job.sender.traffic_class, std::nullopt);
  settings.ect = (job.sender.traffic_class & 3) != 0;
  settings.control = job.sender.control;
  settings.first_header = sizeof(Reth);
  settings.last_header = kImmBytes;
  return settings;
}

}  // namespace

Result<RankJob> build_rank_job(const Config& config, const JobConfig& job, const Topology& topology,
                               std::vector<FlowSpec>& flows, uint32_t& first_connection) {
  const auto error = [&](const std::string& text) {
    return fail(config.path + ":" + std::to_string(job.line) + ": job: " + text);
  };
  if (job.group) {
    return error("found group = true: simulate carries out one operation after the other so far");
  }
  const auto schedules = job_schedules(config, job);
  if (!schedules) return tl::unexpected(schedules.error());
  const Communicator communicator = job_communicator(config, job);
  RankJob out;
  out.communicator = communicator;
  std::vector<RankOperation> operations;
  for (const JobSchedule& schedule : *schedules) {
    for (uint32_t i = 0; i < job.warmup + job.iterations; ++i) {
      RankOperation made;
      for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
        made.ranks.push_back(rank_schedule(communicator, schedule.operation, schedule.cut, rank));
        for (const Connection& connection : made.ranks.back()->connections()) {
          if (connection.network && connection.direction == Direction::kSend) {
            out.messages += connection.messages;
          }
        }
        if (out.messages > kMostMessages) {
          return error("more than " + std::to_string(kMostMessages) +
                       " messages, one by one: take fewer or smaller operations");
        }
        Duration delay = operations.empty() ? Duration() : job.interval;
        if (!job.skew.empty()) delay += job.skew[rank / communicator.gpus];
        made.entry_delay.push_back(delay);
      }
      operations.push_back(std::move(made));
      out.sizes.push_back(schedule.bytes);
      out.warmup.push_back(i < job.warmup);
      out.iteration.push_back(i < job.warmup ? i : i - job.warmup);
    }
  }
  out.ranks = std::make_unique<RankTraffic>(std::move(operations), settings_of(config, job));
  const auto nic_of = [&](uint32_t rank, const Connection& connection) {
    const std::vector<VertexId>& nics = topology.nics[job.ranks[communicator.node_of(rank)]];
    return nics[connection.nic];
  };
  first_connection = out.ranks->add_flows(flows, nic_of, first_connection);
  return out;
}

}  // namespace understudy
