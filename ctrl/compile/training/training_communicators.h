// The communicators of a training job as NCCL would have them: which GPUs, which NICs, which schedules.
//
// Collectives go as rings with the Simple protocol, which NCCL takes for the sizes of gradients' buckets;
// a ring has as many channels as its GPUs on a node, and each leaves by another one's NIC. Messages between
// stages are NCCL's send and receive, tokens of experts its send and receive with each other member. Keys and
// values go around one ring, from each GPU to the next one.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "ctrl/compile/gpus/ring_time.h"
#include "ctrl/compile/training/training_plan.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/packet_level_ranks.h"

namespace understudy {

/// Whether members are on several nodes: the same of all communicators of the family.
bool crosses_network(const TrainingPlan& plan, const TrainingFamily& family);

Collective collective_of(TrainingTransfer transfer);

/// Of a family of replicas: members of a communicator on each of its nodes; how many communicators there are
/// for each tensor rank; the GPU of a member.
uint32_t members_together(const TrainingPlan& plan, const TrainingFamily& family);
uint32_t parts_of(const Parallel& parallel, const TrainingFamily& family);
GpuPlace member_place(const TrainingPlan& plan, const TrainingFamily& family, uint32_t part,
                      uint32_t member, uint32_t tensor);
/// Channels of its rings, or of its send and receive.
uint32_t channels_of(const TrainingPlan& plan, const TrainingFamily& family);

/// The first of such communicators, as a job with these sizes. `ranks` are its nodes.
JobConfig replicas_job(const Config& config, const TrainingPlan& plan, const TrainingFamily& family,
                       Collective collective, std::vector<uint64_t> sizes);

/// From which NIC to which a communicator's connections between nodes go: of rings channel by channel, node by
/// node; of experts from each member to each on another node.
std::vector<MessageWays::Way> member_ways(const Config& config, const TrainingPlan& plan,
                                          const Topology& topology, const TrainingFamily& family,
                                          uint32_t part, uint32_t tensor);
/// The ends of a message, or of an operation of two.
MessageWays::Way pair_way(const Config& config, const TrainingPlan& plan, const Topology& topology,
                          const TrainingFamily& family, uint32_t replica, uint32_t tensor);

/// Bytes that each of member_ways() carries of an operation, or the way of a pair.
uint64_t way_bytes(const TrainingPlan& plan, const TrainingFamily& family,
                   const FamilyOperation& operation);

/// As steps_time() of a ring's hops (ring_time.h).
Duration steps_time(const Config& config, const TrainingPlan& plan, const Topology& topology,
                    Routes& routes, const MessageWays::Way& way, const TrainingFamily& family,
                    const FamilyOperation& operation);

/// What the norm takes, once all have entered: a tree over all nodes, up and down, at the latency
/// between the first and the last one.
Duration norm_time(const Config& config, const TrainingPlan& plan, const Parallel& parallel,
                   const Topology& topology);

}  // namespace understudy
