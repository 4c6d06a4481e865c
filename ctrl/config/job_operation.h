// What the operations of a job are: questions that readers, schedules and runs ask alike.
#pragma once

#include <string>

#include "ctrl/config/config.h"

namespace understudy {

/// Every rank has a part of the buffer: sizes are divided by the ranks.
bool has_parts(Collective collective);
/// Ranks of the job on each of its nodes: its `gpus`, or as many GPUs as every one of them has.
uint32_t gpus_per_node(const Config& config, const JobConfig& job);
/// All ranks of the job, with gpus_per_node() on each node.
uint64_t job_rank_count(const Config& config, const JobConfig& job);
/// Whether it has no real node, so that its jobs are carried out packet by packet.
bool all_emulated(const Config& config);
/// A ring all-reduce of fp32 by the Simple protocol, with one rank a node.
bool is_plain_ring(const Config& config, const JobConfig& job);
/// Whether ring_node carries it out as neighbour of other ranks, by its own knowledge of a ring:
/// what is_plain_ring() says, without merged NICs, as 2.23 to 2.28 cut it. Else as a whole node, by the model's
/// schedules.
bool is_ring_of_neighbours(const Config& config, const JobConfig& job);

}  // namespace understudy
