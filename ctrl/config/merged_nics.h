// NICs of a node that NCCL takes for one: the ports of a card, its merged devices.
#pragma once

#include "ctrl/config/config.h"

namespace understudy {

/// How many of a node's NICs, from `nic` on, a rank's connections of this job are spread over: as
/// many as the job merges, or as the node has.
uint32_t merged_nics(const JobConfig& job, const NodeConfig& node, unsigned nic);

/// What they carry together: messages are cut in equal parts, so that the slowest one counts.
Rate merged_rate(const JobConfig& job, const NodeConfig& node, unsigned nic);

}  // namespace understudy
