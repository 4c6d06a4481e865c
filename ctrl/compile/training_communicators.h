// The communicators of a training job as NCCL would have them: which GPUs, which NICs, which schedules.
//
// Collectives go as rings with the Simple protocol, which NCCL takes for the sizes of gradients' buckets;
// a ring has as many channels as its GPUs on a node, and each leaves by another one's NIC. Messages between
// stages are NCCL's send and receive.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "ctrl/compile/training_plan.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/packet_level_ranks.h"

namespace understudy {

/// Whether members are on several nodes: the same of all communicators of the family.
bool crosses_network(const TrainingPlan& plan, const Parallel& parallel,
                     const TrainingFamily& family);

Collective collective_of(TrainingTransfer transfer);

/// One of a stage's rings of replicas, as a job with these sizes. `ranks` are its nodes.
JobConfig replicas_job(const Config& config, const TrainingPlan& plan, uint32_t stage,
                       uint32_t tensor, Collective collective, std::vector<uint64_t> sizes);

/// NIC of a GPU, by its number on the node; and in the topology.
uint32_t nic_number(const Config& config, const GpuPlace& gpu);
VertexId nic_of(const Config& config, const Topology& topology, const GpuPlace& gpu);

/// From which NIC to which the ring's connections between nodes go; channel by channel, node by node.
std::vector<MessageWays::Way> ring_ways(const Config& config, const TrainingPlan& plan,
                                        const Topology& topology, uint32_t stage, uint32_t tensor);
/// The ends of a message, or of an operation of two.
MessageWays::Way pair_way(const Config& config, const TrainingPlan& plan, const Topology& topology,
                          const TrainingFamily& family, uint32_t replica, uint32_t tensor);

/// Bytes that each of ring_ways() carries of an operation.
uint64_t ring_bytes(const FamilyOperation& operation, uint32_t ranks, size_t channels);

/// Of an operation whose bytes go as one flow for all steps of its ring: what it takes besides. First messages
/// wait for credits, and each step for a latency that the slices behind the first one do not cover.
Duration steps_time(const Config& config, const Topology& topology, const MessageWays::Way& way,
                    const FamilyOperation& operation, uint32_t ranks);

/// What the norm takes, once all have entered: a tree over all nodes, up and down, at the latency
/// between the first and the last one.
Duration norm_time(const Config& config, const TrainingPlan& plan, const Parallel& parallel,
                   const Topology& topology);

}  // namespace understudy
