#include "collective_model/predict/dimension_time.h"

#include <algorithm>
#include <bit>
#include <deque>

namespace understudy {
namespace {

/// Wide enough for the largest sizes at the smallest rates.
using Picoseconds = __int128;

/// One dimension's clock: what messages and reductions take in it.
class Steps {
 public:
  Steps(const Dimension& dimension, const DimensionCosts& costs)
      : dimension_(dimension), costs_(costs) {}

  /// All messages of a step are `bytes` long and start at once; each link carries `alike` of them.
  Picoseconds step(uint64_t bytes, uint32_t alike = 1) const {
    const Picoseconds wire = time_at(dimension_.rate, bytes);
    const Picoseconds latency = dimension_.latency.ps();
    const int hops = dimension_.kind == DimensionKind::kSwitch ? 2 : 1;
    Picoseconds time =
        costs_.store_and_forward ? rounded(latency + wire) * hops : rounded(latency * hops + wire);
    if (costs_.shared_links) time += rounded(wire) * (alike - 1);
    return time + costs_.endpoint.ps();
  }
  /// Two reads and a write.
  Picoseconds reduction(uint64_t bytes) const { return rounded(time_at(costs_.memory, bytes)) * 3; }

 private:
  static Picoseconds time_at(Rate rate, uint64_t bytes) {
    if (rate.is_unlimited()) return 0;
    return Picoseconds{bytes} * Rate::kPsBitsPerByte / rate.bps();
  }
  Picoseconds rounded(Picoseconds time) const {
    return time / costs_.rounding.ps() * costs_.rounding.ps();
  }

  const Dimension& dimension_;
  const DimensionCosts& costs_;
};

/// Bytes that a rank of the dimension sends in one message of ring and direct; `held` is what it
/// has at the start.
uint64_t part(Collective collective, uint64_t held, uint32_t ranks) {
  return collective == Collective::kAllGather ? held : held / ranks;
}

Picoseconds ring(const Steps& steps, Collective collective, uint64_t held, int64_t n) {
  const uint64_t message = part(collective, held, static_cast<uint32_t>(n));
  int64_t count = n - 1;
  if (collective == Collective::kAllReduce) count = 2 * (n - 1);
  // A part for the rank d places on crosses d links, and a rank passes on those of others.
  if (collective == Collective::kAllToAll) count = n * (n - 1) / 2;
  Picoseconds time = steps.step(message) * count;
  if (reduces(collective)) time += steps.reduction(message) * (n - 1);
  return time;
}

Picoseconds direct(const Steps& steps, const Dimension& dimension, Collective collective,
                   uint64_t held) {
  const uint64_t message = part(collective, held, dimension.size);
  const uint32_t alike = dimension.kind == DimensionKind::kSwitch ? dimension.size - 1 : 1;
  Picoseconds time = steps.step(message, alike) * (collective == Collective::kAllReduce ? 2 : 1);
  if (reduces(collective)) time += steps.reduction(message);
  return time;
}

Picoseconds halving_doubling(const Steps& steps, Collective collective, uint64_t held, uint32_t n) {
  const int rounds = std::countr_zero(n);
  Picoseconds time = 0;
  if (reduces(collective)) {
    for (int i = 1; i <= rounds; ++i) {
      time += steps.step(held >> i);
      // The last message's half is reduced while nothing is sent any more, the first one's not.
      if (i > 1) time += steps.reduction(held >> i);
    }
  }
  // The way back begins with twice the half of the last part: of an odd part a byte less.
  if (collective == Collective::kAllReduce) held = held >> (rounds + 1) << 1;
  if (collective != Collective::kReduceScatter) {
    for (int i = 0; i < rounds; ++i) time += steps.step(held << i);
  }
  return time;
}

struct Phase {
  uint32_t dimension;
  Picoseconds time;
};
using Chain = std::vector<Phase>;

Picoseconds phase_time(const Dimension& dimension, Collective collective, uint64_t held,
                       const DimensionCosts& costs) {
  const Steps steps(dimension, costs);
  Picoseconds time = costs.endpoint.ps();
  switch (dimension.algorithm) {
    case DimensionAlgorithm::kRing:
      return time + ring(steps, collective, held, dimension.size);
    case DimensionAlgorithm::kDirect:
      return time + direct(steps, dimension, collective, held);
    case DimensionAlgorithm::kHalvingDoubling:
      return time + halving_doubling(steps, collective, held, dimension.size);
  }
  return time;
}

/// What one chunk goes through; `held` is what a rank has of it at the start.
Chain phases(const std::vector<Dimension>& dimensions, Collective collective, uint64_t held,
             const DimensionCosts& costs) {
  Chain out;
  std::vector<uint32_t> used;
  for (uint32_t d = 0; d < dimensions.size(); ++d) {
    if (dimensions[d].size > 1) used.push_back(d);
  }
  if (collective == Collective::kAllGather) std::reverse(used.begin(), used.end());
  const auto add = [&](uint32_t d, Collective what) {
    out.push_back({d, phase_time(dimensions[d], what, held, costs)});
    if (what == Collective::kReduceScatter) held /= dimensions[d].size;
    if (what == Collective::kAllGather) held *= dimensions[d].size;
  };
  if (collective != Collective::kAllReduce) {
    for (const uint32_t d : used) add(d, collective);
    return out;
  }
  for (size_t i = 0; i + 1 < used.size(); ++i) add(used[i], Collective::kReduceScatter);
  if (!used.empty()) add(used.back(), Collective::kAllReduce);
  for (size_t i = used.size(); i-- > 1;) add(used[i - 1], Collective::kAllGather);
  return out;
}

/// When the last of these chunks, all of which are there at the start, has gone through its chain.
Picoseconds pass_through(size_t dimensions, const std::vector<const Chain*>& chunks) {
  struct Waiting {
    Picoseconds since;
    const Chain* chain;
    uint32_t phase;
  };
  std::vector<std::deque<Waiting>> queues(dimensions);
  std::vector<Picoseconds> free(dimensions);
  for (const Chain* chain : chunks) {
    queues[chain->front().dimension].push_back({0, chain, 0});
  }
  // Phases end one after the other, so that chunks come to every queue in the order of time.
  for (Picoseconds now = 0;;) {
    size_t next = dimensions;
    Picoseconds earliest = 0;
    for (size_t d = 0; d < dimensions; ++d) {
      if (queues[d].empty()) continue;
      const Waiting& first = queues[d].front();
      const Picoseconds end = std::max(first.since, free[d]) + (*first.chain)[first.phase].time;
      if (next != dimensions && end >= earliest) continue;
      earliest = end;
      next = d;
    }
    if (next == dimensions) return now;
    now = free[next] = earliest;
    const Chain* chain = queues[next].front().chain;
    const uint32_t phase = queues[next].front().phase + 1;
    queues[next].pop_front();
    if (phase < chain->size()) queues[(*chain)[phase].dimension].push_back({now, chain, phase});
  }
}

}  // namespace

const char* why_not(const Dimension& dimension) {
  if (dimension.algorithm == DimensionAlgorithm::kRing || dimension.size <= 2) return "";
  if (dimension.kind == DimensionKind::kRing) return "on a ring only \"ring\" has neighbours alone";
  if (dimension.algorithm == DimensionAlgorithm::kHalvingDoubling &&
      !std::has_single_bit(dimension.size)) {
    return "\"halving_doubling\" needs a power of two of ranks";
  }
  return "";
}

Duration dimensions_time(const std::vector<Dimension>& dimensions, Collective collective,
                         uint64_t bytes, uint32_t splits, const DimensionCosts& costs) {
  uint64_t ranks = 1;
  for (const Dimension& dimension : dimensions) ranks *= dimension.size;
  const uint64_t held = collective == Collective::kAllGather ? bytes / ranks : bytes;
  const uint64_t whole = held / splits, rest = held % splits;
  const Chain chunk = phases(dimensions, collective, whole, costs);
  const Chain last = phases(dimensions, collective, rest, costs);
  if (chunk.empty()) return Duration();
  std::vector<const Chain*> chunks;
  if (whole != 0) chunks.assign(splits, &chunk);
  if (rest != 0) chunks.push_back(&last);
  const Picoseconds time = pass_through(dimensions.size(), chunks);
  return time < Duration::max().ps() ? Duration::ps(static_cast<int64_t>(time)) : Duration::max();
}

}  // namespace understudy
