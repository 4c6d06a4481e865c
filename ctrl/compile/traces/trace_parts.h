// The communicators of traces as NCCL would have them: which GPUs, which NICs, which schedules.
//
// Collectives go as rings with the Simple protocol, or as sends and receives of all pairs; a communicator
// has as many channels as GPUs on a node, and each leaves by another one's NIC.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "ctrl/compile/traces/trace_plan.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/packet_level_ranks.h"

namespace understudy {

/// Where the members of a communicator are.
struct TraceMembers {
  std::vector<GpuPlace> places;  ///< by member
  std::vector<NodeId> nodes;
  uint32_t together = 1;  ///< members on each node
  bool crosses() const { return nodes.size() > 1; }
};
/// An error names a communicator that has not as many GPUs on each of its nodes.
Result<TraceMembers> trace_members(const TracePlan& plan, const TraceCommunicator& communicator);

/// An operation as a job with one size.
JobConfig trace_operation_job(const Config& config, const TraceMembers& members,
                              const TraceCommunicator& communicator, const TraceShape& shape);

/// Its parts by member. Errors: what NCCL would not carry out.
Result<std::vector<std::shared_ptr<const RankSchedule>>> trace_schedules(
    const Config& config, const TraceMembers& members, const TraceCommunicator& communicator,
    const TraceShape& shape);

/// NICs of the connection between two members.
MessageWays::Way trace_way(const Config& config, const Topology& topology,
                           const TraceMembers& members, uint32_t from, uint32_t to);

/// A connection over the network of some schedule, and what an operation sends by it.
struct TraceFlow {
  uint32_t from = 0, to = 0;  ///< members
  uint32_t channel = 0;
  uint64_t bytes = 0;
  auto key() const { return std::tuple(from, to, channel); }
};
std::vector<TraceFlow> trace_flows(
    const std::vector<std::shared_ptr<const RankSchedule>>& schedules);

/// What an operation takes within one node.
Duration trace_inside_time(const Config& config, const TraceCommunicator& communicator,
                           const TraceShape& shape);
/// Of an operation whose bytes go as one flow on each connection: what it takes besides.
Duration trace_steps_time(const Config& config, const Topology& topology, Routes& routes,
                          const TraceMembers& members, const TraceCommunicator& communicator,
                          const TraceShape& shape);

}  // namespace understudy
