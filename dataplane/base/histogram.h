// Log-linear histogram of durations: constant memory, no allocation after construction,
// relative error of a quantile below 1/16.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/assert.h"
#include "dataplane/base/units.h"

namespace understudy {

class Histogram {
 public:
  /// Negative durations count as zero.
  void add(Duration d) {
    const uint64_t v = d.ps() > 0 ? static_cast<uint64_t>(d.ps()) : 0;
    DEBUG_ASSERT_INVARIANT(index(v) < kBuckets);
    ++buckets_[index(v)];
    ++count_;
    if (d > max_) max_ = d;
  }
  uint64_t count() const { return count_; }
  Duration max() const { return max_; }

  /// Upper edge of the bucket that holds quantile `permille`/1000, never above the maximum seen.
  Duration quantile(unsigned permille) const {
    ASSERT_INVARIANT(permille <= 1000);
    if (count_ == 0) return Duration();
    const uint64_t rank = (count_ * permille + 999) / 1000;
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen >= rank && seen > 0) {
        const Duration edge = Duration::ps(static_cast<int64_t>(upper_edge(i)));
        return edge < max_ ? edge : max_;
      }
    }
    return max_;
  }

 private:
  static constexpr unsigned kSubBits = 4;  ///< 16 linear steps per power of two
  static constexpr size_t kBuckets = (65 - kSubBits) << kSubBits;

  static constexpr size_t index(uint64_t v) {
    if (v < (1u << kSubBits)) return static_cast<size_t>(v);
    const unsigned exponent = static_cast<unsigned>(std::bit_width(v)) - 1 - kSubBits;
    return ((exponent + 1) << kSubBits) +
           static_cast<size_t>((v >> exponent) & ((1u << kSubBits) - 1));
  }
  static constexpr uint64_t upper_edge(size_t i) {
    if (i < (1u << kSubBits)) return i;
    const size_t exponent = (i >> kSubBits) - 1;
    const uint64_t mantissa = (i & ((1u << kSubBits) - 1)) + (1u << kSubBits);
    return ((mantissa + 1) << exponent) - 1;
  }

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  Duration max_;
};

}  // namespace understudy
