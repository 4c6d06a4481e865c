#include "collective_model/traces/trace_network.h"

#include <cmath>
#include <utility>

namespace understudy {
namespace {

/// Ranks between two places of a ring, clockwise.
uint32_t clockwise(uint32_t from, uint32_t to, uint32_t ranks) {
  return to >= from ? to - from : to + ranks - from;
}

}  // namespace

Result<TraceNetwork> TraceNetwork::make(std::vector<TraceDimension> dimensions,
                                        TraceCongestion congestion) {
  constexpr uint64_t kMostRanks = 1 << 20;
  TraceNetwork network;
  network.aware_ = congestion == TraceCongestion::kAware;
  if (dimensions.empty()) return fail("a network has at least one dimension");
  if (network.aware_ && dimensions.size() > 1) {
    return fail(
        "several dimensions with congestion are not covered (ASTRA-sim's congestion_aware "
        "has one dimension)");
  }
  uint64_t ranks = 1;
  for (const TraceDimension& dimension : dimensions) {
    if (dimension.kind == TraceDimension::Kind::kSwitch) {
      return fail("the topology Switch is not covered");
    }
    if (dimension.ranks < 2) return fail("a dimension has two ranks or more");
    if (!(dimension.bandwidth > 0) || !std::isfinite(dimension.bandwidth)) {
      return fail("a bandwidth is more than 0");
    }
    if (!(dimension.latency >= 0) || !std::isfinite(dimension.latency)) {
      return fail("a latency is 0 or more");
    }
    if (network.aware_ && dimension.ranks == 2) {
      return fail(
          "a dimension of two ranks with congestion is not covered (ASTRA-sim's "
          "congestion_aware ends with an error)");
    }
    network.strides_.push_back(static_cast<uint32_t>(ranks));
    ranks *= dimension.ranks;
    if (ranks > kMostRanks) {
      return fail("a network has " + std::to_string(kMostRanks) + " ranks at most");
    }
  }
  network.ranks_ = static_cast<uint32_t>(ranks);
  network.dimensions_ = std::move(dimensions);
  return network;
}

size_t TraceNetwork::crossed(uint32_t from, uint32_t to) const {
  size_t dimension = 0;
  while (place(from, dimension) == place(to, dimension)) ++dimension;
  return dimension;
}

uint32_t TraceNetwork::hops(uint32_t from, uint32_t to) const {
  const size_t dimension = crossed(from, to);
  const uint32_t ranks = dimensions_[dimension].ranks;
  if (dimensions_[dimension].kind == TraceDimension::Kind::kFullyConnected) return 1;
  const uint32_t right = clockwise(place(from, dimension), place(to, dimension), ranks);
  return std::min(right, ranks - right);
}

double TraceNetwork::message_time(uint64_t bytes, uint32_t from, uint32_t to) const {
  const TraceDimension& dimension = dimensions_[crossed(from, to)];
  const double links = aware_ ? 1 : hops(from, to);
  return std::floor(links * dimension.latency +
                    static_cast<double>(bytes) / dimension.bytes_per_ns());
}

double TraceNetwork::serialized(uint64_t bytes) const {
  return std::floor(static_cast<double>(bytes) / dimensions_.front().bytes_per_ns());
}

uint32_t TraceNetwork::next(uint32_t at, uint32_t to) const {
  if (dimensions_.front().kind == TraceDimension::Kind::kFullyConnected) return to;
  const uint32_t right = clockwise(at, to, ranks_);
  const bool forward = right <= ranks_ - right;
  return (at + (forward ? 1 : ranks_ - 1)) % ranks_;
}

}  // namespace understudy
