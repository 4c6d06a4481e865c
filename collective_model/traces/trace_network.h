// The network of ASTRA-sim's analytical back ends: how long messages take, and over which links they
// go (astra-sim/astra-network-analytical 599a047).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

struct TraceDimension {
  enum class Kind : uint8_t { kRing, kFullyConnected, kSwitch };
  Kind kind = Kind::kRing;
  uint32_t ranks = 0;
  double bandwidth = 0;  ///< of a link, in 2^30 bytes a second
  double latency = 0;    ///< of a link, in ns

  double bytes_per_ns() const { return bandwidth * (1 << 30) / 1e9; }
};

enum class TraceCongestion : uint8_t {
  kUnaware,  ///< links carry any number of messages at once
  kAware,    ///< a link carries one message at a time, and nodes store and forward them
};

/// A rank's number is d0 + D0 (d1 + D1 (d2 ...)) by its place in each dimension.
class TraceNetwork {
 public:
  /// An error names what this network or its kind of congestion has no time for: switches, and where
  /// links are shared several dimensions and dimensions of two ranks.
  static Result<TraceNetwork> make(std::vector<TraceDimension> dimensions,
                                   TraceCongestion congestion);

  const std::vector<TraceDimension>& dimensions() const { return dimensions_; }
  bool congestion_aware() const { return aware_; }
  uint32_t ranks() const { return ranks_; }
  /// Place of a rank in a dimension, and the difference between neighbours there.
  uint32_t place(uint32_t rank, size_t dimension) const {
    return rank / strides_[dimension] % dimensions_[dimension].ranks;
  }
  uint32_t stride(size_t dimension) const { return strides_[dimension]; }
  /// The dimension that a message crosses: the first in which its ends, which are not equal, differ.
  size_t crossed(uint32_t from, uint32_t to) const;
  uint32_t hops(uint32_t from, uint32_t to) const;

  /// In ns, rounded down. Not congestion-aware: of the whole way; else of one link.
  double message_time(uint64_t bytes, uint32_t from, uint32_t to) const;
  /// How long it keeps a link busy, in ns, rounded down; congestion-aware.
  double serialized(uint64_t bytes) const;

  /// Congestion-aware: the rank after `at` on the way to `to`, and the number of the link to it.
  uint32_t next(uint32_t at, uint32_t to) const;
  uint64_t link(uint32_t at, uint32_t next) const {
    return static_cast<uint64_t>(at) * ranks_ + next;
  }

 private:
  std::vector<TraceDimension> dimensions_;
  std::vector<uint32_t> strides_;
  uint32_t ranks_ = 1;
  bool aware_ = false;
};

}  // namespace understudy
