// How much longer flows took than alone in the network, by their size.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

struct FlowSlowdown {
  uint64_t bytes = 0;   ///< payload
  double slowdown = 1;  ///< its time over its time alone
};

/// How many times as long it took as `alone`. Nothing: alone it takes no time.
inline std::optional<double> slowdown_of(Duration took, Duration alone) {
  if (alone == Duration()) return std::nullopt;
  return took.seconds() / alone.seconds();
}

/// The percentile that so many of a thousand are no larger than, by nearest rank: the smallest
/// value that at least this share of all values do not exceed.
struct Percentile {
  const char *name, *key;
  uint32_t per_thousand;
};
inline constexpr std::array<Percentile, 4> kPercentiles = {
    {{"p50", "p50", 500}, {"p95", "p95", 950}, {"p99", "p99", 990}, {"p99.9", "p99_9", 999}}};

/// Flows of more than `above` bytes, and at most `most`.
struct SlowdownBucket {
  uint64_t above = 0, most = 0;
  uint64_t flows = 0;
  std::array<double, kPercentiles.size()> at{};  ///< kPercentiles
  double largest = 0;

  /// The percentile is the largest value only because there are too few flows for it.
  bool is_largest(size_t percentile) const;
};

/// Of all sizes together. `flows` may be empty: then it has zeros.
SlowdownBucket slowdown_of_all(std::span<const FlowSlowdown> flows);
/// Those with flows, by size. Borders are 100 B, 300 B, 1 KB, 3 KB and so on.
std::vector<SlowdownBucket> slowdown_buckets(std::span<const FlowSlowdown> flows);

/// "<= 30 KB"
std::string bucket_text(const SlowdownBucket& bucket);
/// A table for a person: a line for each bucket, and one of all.
std::string slowdown_table(const std::string& traffic, std::span<const FlowSlowdown> flows);

}  // namespace understudy
