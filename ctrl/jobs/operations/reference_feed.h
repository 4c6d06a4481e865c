// Feeds for virtual time, as FedOperations::follow() takes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/config.h"
#include "dataplane/base/result.h"

namespace understudy {

/// What profiler plugins of the reference node's ranks would tell: a piece for each operation of
/// the job, in which every real rank tells it.
Result<std::vector<std::vector<uint8_t>>> reference_feed(const Config& config, const JobConfig& job,
                                                         const CollectiveSetup& setup);

/// A file of records, as one piece: NCCL's host thread was ahead of all.
Result<std::vector<std::vector<uint8_t>>> recorded_feed(const std::string& path);

}  // namespace understudy
