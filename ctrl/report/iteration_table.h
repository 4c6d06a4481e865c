// What a job's iterations came to, as lines of a table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctrl/report/flow_report.h"

namespace understudy {

/// Means of the timed iterations, each kind of them once: where an iteration has one operation
/// only, by its size. `bytes`: of every operation. Empty without iterations.
std::string iteration_lines(const std::vector<IterationReport>& iterations, uint32_t per_iteration,
                            const std::vector<uint64_t>& bytes);

}  // namespace understudy
