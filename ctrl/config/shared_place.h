// Jobs of NCCL's that meet at one place (job.join): their communicators are there at once, and take
// the ids of that place in turn.
#pragma once

#include "ctrl/config/config.h"

namespace understudy {

/// Both join by the same file, or the same address.
bool is_same_place(const NcclJoinConfig& one, const NcclJoinConfig& other);

/// Both join at one place: they have the same ranks, a real rank 0 has a root there for each
/// communicator, and both take several of them.
bool may_share_place(const Config& config, const JobConfig& one, const JobConfig& other);

/// Another job of the configuration joins at the place of `job`, one of its.
bool shares_place(const Config& config, const JobConfig& job);

}  // namespace understudy
