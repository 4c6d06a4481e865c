#include "dataplane/node/exact_ring.h"

#include <bit>
#include <cstring>

namespace understudy {

void ExactRing::reduce(uint32_t step, uint64_t first, std::span<uint8_t> out) const {
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
  uint32_t at;    // step at which it sends
  if (step >= emulated) {
    rank = (real + ranks - emulated) % ranks;
    at = step - emulated + 1;
  } else {
    rank = (previous(real) + ranks - step) % ranks;
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

uint64_t ExactRing::wrong(uint32_t start, uint64_t first, std::span<const float> data,
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

}  // namespace understudy
