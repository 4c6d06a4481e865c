// NICs of a job's nodes, and those of a node that NCCL takes for one: the ports of a card, its
// merged devices.
#pragma once

#include <vector>

#include "ctrl/config/config.h"

namespace understudy {

/// How many of a node's NICs, from `nic` on, a rank's connections of this job are spread over: as
/// many as the job merges, or as the node has.
uint32_t merged_nics(const JobConfig& job, const NodeConfig& node, unsigned nic);

/// As how many NICs NCCL sees those of the job's nodes, each made of so many merged ones: of a job
/// with one rank a node the one that it takes, else as many as the node with the fewest has.
uint32_t job_nics(const Config& config, const JobConfig& job);

/// The first NIC of number `k` of these; of a job on a child, of those that its ranks take.
uint32_t job_nic(const Config& config, const JobConfig& job, uint32_t k);

/// How many of these the ranks of a node take: GPU g, of the job's, the one of g * used_nics() / GPUs.
uint32_t used_nics(const Config& config, const JobConfig& job);

/// The first NIC of each that a node's ranks take: the same on all nodes. Looks at all of them.
std::vector<unsigned> first_nics(const Config& config, const JobConfig& job);

/// Numbers of the NICs of one of the job's nodes that its ranks take: of each that NCCL sees those
/// that it is made of, ascending.
std::vector<std::vector<unsigned>> rank_nics(const Config& config, const JobConfig& job,
                                             const NodeConfig& node);

/// What they carry together: messages are cut in equal parts, so that the slowest one counts.
Rate merged_rate(const JobConfig& job, const NodeConfig& node, unsigned nic);

}  // namespace understudy
