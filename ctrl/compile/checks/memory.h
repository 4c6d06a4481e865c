// What a run needs of this machine's memory that no packet path keeps small: the results of exact
// operations on reference nodes, as long as the operations are.
#pragma once

#include <cstdint>

#include "ctrl/config/config.h"
#include "dataplane/base/memory_left.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Bytes of the results that reference nodes keep in a run in virtual time: of each job the largest
/// operation's, for each such rank.
uint64_t bytes_of_results(const Config& config);

/// Error: the results need more than is left, and of what; with the file and the line of the largest job.
Result<void> check_memory(const Config& config, const MemoryLeft& left = memory_left());

}  // namespace understudy
