#include "ctrl/compile/traces/trace_parts.h"

#include <algorithm>

#include "ctrl/compile/gpus/ring_time.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

Collective collective_of(const TraceShape& shape) {
  if (!shape.collective) return Collective::kAllToAllV;
  switch (*shape.collective) {
    case TraceCollective::kAllReduce:
    case TraceCollective::kBarrier:
      return Collective::kAllReduce;
    case TraceCollective::kReduce:
      return Collective::kReduce;
    case TraceCollective::kAllGather:
      return Collective::kAllGather;
    case TraceCollective::kGather:
      return Collective::kGather;
    case TraceCollective::kScatter:
      return Collective::kScatter;
    case TraceCollective::kBroadcast:
      return Collective::kBroadcast;
    case TraceCollective::kAllToAll:
      return Collective::kAllToAll;
    case TraceCollective::kReduceScatter:
    case TraceCollective::kReduceScatterBlock:
      break;
  }
  return Collective::kReduceScatter;
}

bool has_equal_parts(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
         collective == Collective::kAllToAll || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

/// As nccl-tests count them, of the larger of both buffers; as many for each rank where each has a part.
/// An operation of no bytes, which is not carried out, is described as one of the least.
uint64_t whole_bytes(const TraceShape& shape, uint32_t ranks) {
  const Collective collective = collective_of(shape);
  const bool each = collective == Collective::kAllGather || collective == Collective::kGather;
  const uint64_t bytes = shape.collective == TraceCollective::kBarrier
                             ? 4
                             : std::max<uint64_t>(shape.bytes, 1) * (each ? ranks : 1);
  const uint64_t parts = has_equal_parts(collective) ? ranks : 1;
  return (bytes + parts - 1) / parts * parts;
}

/// As those that the time of a ring is known of; others as sends.
TrainingTransfer transfer_of(const TraceShape& shape) {
  switch (collective_of(shape)) {
    case Collective::kAllReduce:
      return TrainingTransfer::kAllReduce;
    case Collective::kAllGather:
      return TrainingTransfer::kAllGather;
    case Collective::kReduceScatter:
      return TrainingTransfer::kReduceScatter;
    case Collective::kAllToAll:
      return TrainingTransfer::kAllToAll;
    default:
      return TrainingTransfer::kSend;
  }
}

uint64_t bytes_of(const RankSchedule& schedule, uint32_t connection) {
  const uint64_t messages = schedule.connections()[connection].messages;
  uint64_t bytes = 0;
  for (uint64_t k = 0; k < messages;) {
    // From there on messages repeat by twos.
    const uint64_t until = std::min(schedule.alternates_until(connection, k), messages);
    const uint64_t first = schedule.message(connection, k).wire;
    const uint64_t count = until - k;
    if (count < 4) {
      bytes += first;
      ++k;
      continue;
    }
    const uint64_t second = schedule.message(connection, k + 1).wire;
    bytes += first * ((count + 1) / 2) + second * (count / 2);
    k = until;
  }
  return bytes;
}

}  // namespace

Result<TraceMembers> trace_members(const TracePlan& plan, const TraceCommunicator& communicator) {
  TraceMembers out;
  for (const uint32_t rank : communicator.ranks) out.places.push_back(plan.place(rank));
  std::vector<uint32_t> count;
  for (const GpuPlace& place : out.places) {
    const auto at = std::ranges::find(out.nodes, place.node);
    if (at == out.nodes.end()) {
      out.nodes.push_back(place.node);
      count.push_back(1);
    } else {
      ++count[static_cast<size_t>(at - out.nodes.begin())];
    }
  }
  out.together = count.front();
  for (size_t i = 1; i < count.size(); ++i) {
    if (count[i] == count.front()) continue;
    return fail(communicator.name + " has " + std::to_string(count.front()) +
                " of its ranks on the first of its nodes and " + std::to_string(count[i]) +
                " on another one: rings are carried out with as many on each");
  }
  return out;
}

JobConfig trace_operation_job(const Config& config, const TraceMembers& members,
                              const TraceCommunicator& communicator, const TraceShape& shape) {
  const auto ranks = static_cast<uint32_t>(communicator.ranks.size());
  JobConfig job;
  job.name = "workload";
  job.collective = collective_of(shape);
  const uint64_t bytes = whole_bytes(shape, ranks);
  const uint64_t element = has_equal_parts(job.collective) ? uint64_t{4} * ranks : 4;
  job.type = bytes % element == 0 && shape.collective ? DataType::kFloat32 : DataType::kInt8;
  job.ranks = members.nodes;
  job.gpus = members.together;
  job.channels = members.together;
  job.nic = nic_number(config, members.places.front());
  if (members.together > 1) {
    ChildConfig child;
    const uint32_t apart = nic_number(config, members.places[members.together - 1]) - job.nic;
    child.nics = apart == 0 ? 1 : std::min(members.together, apart + 1);
    child.nic_stride = child.nics == 1 ? 1 : apart / (child.nics - 1);
    job.child = child;
  }
  job.sizes = {bytes};
  if (!shape.collective) job.matrix = {0, bytes, 0, 0};
  job.skew.assign(job.ranks.size(), Duration());
  job.sender = config.workload->sender;
  job.line = config.workload->line;
  return job;
}

Result<std::vector<std::shared_ptr<const RankSchedule>>> trace_schedules(
    const Config& config, const TraceMembers& members, const TraceCommunicator& communicator,
    const TraceShape& shape) {
  const JobConfig job = trace_operation_job(config, members, communicator, shape);
  Communicator made = job_communicator(config, job);
  made.pxn = false;
  const auto schedules = TRY(job_schedules(config, job));
  return rank_schedules(made, schedules.front().operation, schedules.front().cut);
}

MessageWays::Way trace_way(const Config& config, const Topology& topology,
                           const TraceMembers& members, uint32_t from, uint32_t to) {
  return {nic_of(config, topology, members.places[from]),
          nic_of(config, topology, members.places[to])};
}

std::vector<TraceFlow> trace_flows(
    const std::vector<std::shared_ptr<const RankSchedule>>& schedules) {
  std::vector<TraceFlow> out;
  for (const auto& schedule : schedules) {
    const std::vector<Connection>& all = schedule->connections();
    for (uint32_t c = 0; c < all.size(); ++c) {
      if (!all[c].network || all[c].direction != Direction::kSend) continue;
      const uint64_t bytes = bytes_of(*schedule, c);
      if (bytes > 0) out.push_back({all[c].from, all[c].to, all[c].channel, bytes});
    }
  }
  return out;
}

Duration trace_inside_time(const Config& config, const TraceCommunicator& communicator,
                           const TraceShape& shape) {
  const auto ranks = static_cast<uint32_t>(communicator.ranks.size());
  const auto bytes = static_cast<double>(whole_bytes(shape, ranks));
  const TrainingTransfer transfer = transfer_of(shape);
  if (transfer != TrainingTransfer::kSend || !shape.collective) {
    return inside_time(config, transfer, bytes, ranks);
  }
  if (has_equal_parts(collective_of(shape))) {
    return inside_time(config, TrainingTransfer::kAllToAll, bytes, ranks);
  }
  // A chain of slices: all bytes once, and each hop's latency.
  const Duration hop = inside_time(config, TrainingTransfer::kSend, 0, ranks);
  return inside_time(config, TrainingTransfer::kSend, bytes, ranks) + hop * (int64_t{ranks} - 2);
}

Duration trace_steps_time(const Config& config, const Topology& topology, Routes& routes,
                          const TraceMembers& members, const TraceCommunicator& communicator,
                          const TraceShape& shape) {
  const auto ranks = static_cast<uint32_t>(communicator.ranks.size());
  const TrainingTransfer transfer = transfer_of(shape);
  const MessageWays::Way way =
      trace_way(config, topology, members, members.together - 1, members.together % ranks);
  const int64_t steps = ring_steps(transfer, static_cast<uint32_t>(members.nodes.size()));
  return steps_time(config, topology, routes, way, transfer, whole_bytes(shape, ranks),
                    {ranks, members.together, steps, ring_steps(transfer, ranks) - steps});
}

}  // namespace understudy
