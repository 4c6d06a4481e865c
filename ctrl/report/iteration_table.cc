#include "ctrl/report/iteration_table.h"

#include <algorithm>

#include "dataplane/base/text_format.h"

namespace understudy {
std::string iteration_lines(const std::vector<IterationReport>& iterations, uint32_t per_iteration,
                            const std::vector<uint64_t>& bytes) {
  std::string text;
  if (iterations.empty()) return text;
  text += format_text("# %10s %12s %14s %14s %14s %14s %10s\n", "iteration", "operations",
                      "time (us)", "last rank", "compute", "exposed", "of them");
  const bool whole = per_iteration > 1;
  for (size_t i = 0; i < iterations.size();) {
    const size_t from = i;
    IterationReport sum;
    int64_t timed = 0;
    uint32_t exposed = UINT32_MAX;
    for (; i < iterations.size() && (whole || bytes[i] == bytes[from]); ++i) {
      const IterationReport& iteration = iterations[i];
      if (iteration.warmup) continue;
      ++timed;
      sum.mean += iteration.mean;
      sum.longest += iteration.longest;
      sum.compute += iteration.compute;
      sum.exposed += iteration.exposed;
      exposed = std::min(exposed, iteration.exposed_operations);
    }
    if (timed == 0) continue;
    const auto us = [&](Duration time) { return (time / timed).microseconds(); };
    text += format_text("%12s %12u %14.2f %14.2f %14.2f %14.2f %10u\n",
                        whole ? "mean" : std::to_string(bytes[from]).c_str(), per_iteration,
                        us(sum.mean), us(sum.longest), us(sum.compute), us(sum.exposed), exposed);
  }
  return text;
}

std::optional<Duration> iteration_pace(const JobReport& job) {
  if (job.per_iteration < 2) return std::nullopt;
  const std::vector<CollectiveReport>& all = job.collectives;
  size_t last = 0, timed = 0;
  for (size_t i = 0; i < all.size(); i += job.per_iteration) {
    last = i;
    if (all[timed].warmup) timed = i;
  }
  const size_t first = timed < last ? timed : 0;
  if (last == first || all[first].entry.is_never()) return std::nullopt;
  const auto count = static_cast<int64_t>((last - first) / job.per_iteration);
  return (all[last].entry - all[first].entry) / count;
}

}  // namespace understudy
