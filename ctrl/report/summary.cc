#include "ctrl/report/summary.h"

#include <algorithm>

namespace understudy {
namespace {

void add_wrong(std::optional<uint64_t>& sum, const std::optional<uint64_t>& wrong) {
  if (wrong) sum = sum.value_or(0) + *wrong;
}

SizeSummary& row(std::vector<SizeSummary>& rows, uint32_t size_index, uint64_t bytes) {
  const auto found = std::ranges::lower_bound(rows, size_index, {}, &SizeSummary::size_index);
  if (found != rows.end() && found->size_index == size_index) return *found;
  SizeSummary fresh;
  fresh.size_index = size_index;
  fresh.bytes = bytes;
  fresh.faithful = true;
  return *rows.insert(found, fresh);
}

}  // namespace

double SizeSummary::algorithm_bandwidth() const {
  return time > Duration() ? static_cast<double>(bytes) / time.seconds() : 0;
}

double SizeSummary::difference_percent() const {
  if (modelled <= Duration()) return 0;
  return 100 * static_cast<double>((time - modelled).ps()) / static_cast<double>(modelled.ps());
}

double bus_factor(const JobReport& job, uint32_t size_index) {
  return size_index < job.kinds.size() ? job.kinds[size_index].bus_factor : job.bus_factor;
}

std::vector<SizeSummary> summarise(const JobReport& job) {
  std::vector<SizeSummary> rows;
  for (const CollectiveReport& c : job.collectives) {
    SizeSummary& r = row(rows, c.size_index, c.bytes);
    add_wrong(r.wrong_elements, c.wrong_elements);
    const bool right = c.size_mismatches == 0 && c.wrong_elements.value_or(0) == 0;
    r.faithful = r.faithful && (c.warmup ? right : c.faithful);
    if (c.warmup) continue;
    if (r.timed++ == 0) r.node_reported = true;
    r.node_reported = r.node_reported && c.node_reported.has_value();
  }
  // Sums, once it is known whose time can be used for all operations of a size.
  for (const CollectiveReport& c : job.collectives) {
    if (c.warmup) continue;
    SizeSummary& r = row(rows, c.size_index, c.bytes);
    r.time += r.node_reported ? *c.node_reported : c.measured;
    r.modelled += c.modelled;
  }
  for (const NodeCheck& check : job.node_checks) {
    SizeSummary& r = row(rows, check.size_index, check.bytes);
    add_wrong(r.wrong_elements, check.wrong_elements);
    if (check.wrong_elements.value_or(0) > 0) r.faithful = false;
  }
  for (SizeSummary& r : rows) {
    if (r.timed == 0) {
      r.faithful = false;
      continue;
    }
    r.time = r.time / r.timed;
    r.modelled = r.modelled / r.timed;
  }
  return rows;
}

}  // namespace understudy
