// What a run needs of this machine's memory that no packet path keeps small: the results of exact
// operations on reference nodes, as long as the operations are.
#pragma once

#include <cstdint>

#include "ctrl/config/config.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Bytes of the results that reference nodes keep in a run in virtual time: of each job the largest
/// operation's, for each such rank.
uint64_t bytes_of_results(const Config& config);

/// Bytes that this process may still take: what the machine has available, its control group's and
/// its own limit, whichever is least.
uint64_t bytes_available();

/// Error: the results need more than `available`; with the file and the line of the largest job.
Result<void> check_memory(const Config& config, uint64_t available = bytes_available());

}  // namespace understudy
