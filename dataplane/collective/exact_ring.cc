#include "dataplane/collective/exact_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

/// Bytes from `offset` on of a rank's contribution; messages of what is only moved are cut to bytes.
void copy_pattern(const Pattern& pattern, uint64_t offset, std::span<uint8_t> out) {
  for (size_t done = 0; done < out.size();) {
    const uint64_t element = (offset + done) / sizeof(float);
    const size_t skip = (offset + done) % sizeof(float);
    const float value = pattern.at(element);
    uint8_t bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    const size_t count = std::min(sizeof value - skip, out.size() - done);
    std::memcpy(out.data() + done, bytes + skip, count);
    done += count;
  }
}

}  // namespace

uint32_t ExactRing::hops(uint32_t sender, const Connection& c, uint64_t k) const {
  const uint32_t last = ranks - 1;
  const uint64_t slices = c.chunk_steps / c.slice_steps;
  switch (collective) {
    case Collective::kBroadcast:
      return (sender + ranks - root) % ranks;
    case Collective::kReduce:
      return (sender + ranks - next(root)) % ranks;
    case Collective::kAllReduce:
      return static_cast<uint32_t>(k / slices % (2 * uint64_t{last}));
    default:
      return static_cast<uint32_t>(k / slices % last);
  }
}

ExactRing::Range ExactRing::contribution(uint32_t rank, uint64_t count) const {
  if (collective == Collective::kAllGather) return {rank * (count / ranks), count / ranks};
  if (collective == Collective::kBroadcast && rank != root) return {};
  return {0, count};
}

void ExactRing::make(uint32_t hops, uint64_t bytes, uint64_t offset, std::span<uint8_t> out) const {
  if (reduces()) return add_chain(hops, offset / sizeof(float), out);
  if (hops >= emulated) return;  // moved as it came
  const uint32_t origin = (previous(real) + ranks - hops) % ranks;
  const uint64_t first = collective == Collective::kAllGather ? origin * (bytes / ranks) : 0;
  DEBUG_ASSERT_INVARIANT(offset >= first);
  copy_pattern(Pattern(seed, origin), offset - first, out);
}

void ExactRing::add_chain(uint32_t hops, uint64_t first, std::span<uint8_t> out) const {
  const size_t count = out.size() / sizeof(float);
  const auto store = [&](size_t i, float v) {
    std::memcpy(out.data() + i * sizeof v, &v, sizeof v);
  };
  const auto load = [&](size_t i) {
    float v;
    std::memcpy(&v, out.data() + i * sizeof v, sizeof v);
    return v;
  };
  uint32_t rank;  // whose contribution comes next
  uint32_t at;    // contributions that are there
  if (hops >= emulated) {
    rank = (real + ranks - emulated) % ranks;
    at = hops - emulated + 1;
  } else {
    rank = (previous(real) + ranks - hops) % ranks;
    const Pattern own(seed, rank);
    for (size_t i = 0; i < count; ++i) store(i, own.at(first + i));
    rank = next(rank);
    at = 1;
  }
  for (; rank != real && at < ranks; rank = next(rank), ++at) {
    const Pattern own(seed, rank);
    for (size_t i = 0; i < count; ++i) store(i, load(i) + own.at(first + i));
  }
}

uint64_t ExactRing::wrong_sums(uint32_t start, uint64_t first, std::span<const float> data,
                               std::span<const uint64_t> seeds) const {
  uint64_t wrong = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    float sum = 0;
    for (uint32_t k = 0; k < ranks; ++k) {
      const uint32_t rank = (start + k) % ranks;
      const float own = Pattern(seeds[rank], rank).at(first + i);
      sum = k == 0 ? own : sum + own;
    }
    wrong += std::bit_cast<uint32_t>(sum) != std::bit_cast<uint32_t>(data[i]) ? 1 : 0;
  }
  return wrong;
}

uint64_t ExactRing::wrong_copies(uint32_t rank, std::span<const float> data, uint64_t seed) {
  const Pattern own(seed, rank);
  uint64_t wrong = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    wrong += std::bit_cast<uint32_t>(own.at(i)) != std::bit_cast<uint32_t>(data[i]) ? 1 : 0;
  }
  return wrong;
}

}  // namespace understudy
