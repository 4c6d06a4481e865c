#include "collective_model/simai/ratios.h"

#include <algorithm>
#include <iterator>

namespace understudy {

RatioColumn ratio_column(uint64_t nodes) {
  constexpr uint64_t kNodes[] = {1, 2, 4, 8, 16, 32, 64, 128};
  const auto found = std::ranges::find(kNodes, nodes);
  if (found == std::end(kNodes)) return RatioColumn::k16;
  return static_cast<RatioColumn>(std::distance(std::begin(kNodes), found));
}

Result<float> RatioTable::share(uint64_t bytes, RatioColumn column) const {
  if (bytes == 0) return 1.0F;
  const auto at = static_cast<size_t>(column);
  const double best = rows.back().shares[at];
  if (bytes < rows.front().bytes) return static_cast<float>(rows.front().shares[at] / best);
  const auto next = std::ranges::lower_bound(rows, bytes, {}, &Row::bytes);
  if (next == rows.end()) {
    return fail("has " + std::to_string(bytes) + " bytes, and the table of ratios ends at " +
                std::to_string(rows.back().bytes));
  }
  if (next->bytes == bytes) return static_cast<float>(next->shares[at] / best);
  const Row& below = *std::prev(next);
  const double way =
      static_cast<double>(bytes - below.bytes) / static_cast<double>(next->bytes - below.bytes);
  const double share = below.shares[at] + (next->shares[at] - below.shares[at]) * way;
  return static_cast<float>(share / best);
}

}  // namespace understudy
