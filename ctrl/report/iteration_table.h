// What a job's iterations came to, as lines of a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/report/flow_report.h"
#include "ctrl/report/run_report.h"

namespace understudy {

/// Means of the timed iterations, each kind of them once: where an iteration has one operation
/// only, by its size. `bytes`: of every operation. Empty without iterations.
std::string iteration_lines(const std::vector<IterationReport>& iterations, uint32_t per_iteration,
                            const std::vector<uint64_t>& bytes);

/// Of a job beside a real node, whose program's computing nobody knows: from one entry of an iteration's
/// first operation to the next, the mean. The warm-ups count only where nothing else does. Nothing: an
/// iteration has one operation, or there is no second one.
std::optional<Duration> iteration_pace(const JobReport& job);

}  // namespace understudy
