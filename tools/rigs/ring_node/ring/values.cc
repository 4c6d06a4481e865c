#include "tools/rigs/ring_node/ring/values.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

bool is_real(const RingJobMessage& job, uint32_t rank) {
  return std::ranges::count(job.real_ranks, rank) != 0;
}

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

}  // namespace

std::vector<float> input_values(uint64_t input_seed, uint32_t rank, uint64_t count) {
  const Pattern pattern(input_seed, rank);
  std::vector<float> out(count);
  for (uint64_t i = 0; i < count; ++i) out[i] = pattern.at(i);
  return out;
}

bool verifiable(const RingJobMessage& job, bool input_seed_given) {
  return job.exact && (job.real_ranks.size() == 1 || input_seed_given);
}

std::vector<float> expected_values(const RingJobMessage& job, uint64_t input_seed,
                                   std::span<const float> input) {
  const RankCutting cutting(job);
  std::vector<float> sum(input.size());
  const auto add_chunk = [&](const ElementRange& chunk, uint32_t k) {
    for (uint32_t i = 1; i <= job.ranks; ++i) {
      const uint32_t rank = (k + i) % job.ranks;
      const Pattern theirs(is_real(job, rank) ? input_seed : job.seed, rank);
      for (uint64_t e = chunk.first; e < chunk.first + chunk.count; ++e) {
        const float value = rank == job.client_rank ? input[e] : theirs.at(e);
        sum[e] = i == 1 ? value : sum[e] + value;
      }
    }
  };
  for (const ElementRange& part : cutting.parts(input.size())) {
    for (uint64_t loop = 0; loop < cutting.loops(part); ++loop) {
      for (uint32_t k = 0; k < job.ranks; ++k) add_chunk(cutting.chunk(part, loop, k), k);
    }
  }
  return sum;
}

uint64_t count_differences(std::span<const float> a, std::span<const float> b) {
  uint64_t differences = 0;
  for (size_t i = 0; i < a.size(); ++i) differences += bits(a[i]) != bits(b[i]) ? 1 : 0;
  return differences;
}

std::string first_difference(std::span<const float> got, std::span<const float> expected) {
  size_t i = 0;
  while (bits(got[i]) == bits(expected[i])) ++i;
  char text[128];
  std::snprintf(text, sizeof text, "element %zu is %.9g (0x%08x), expected %.9g (0x%08x)", i,
                static_cast<double>(got[i]), bits(got[i]), static_cast<double>(expected[i]),
                bits(expected[i]));
  return text;
}

std::optional<uint64_t> only_difference(std::span<const float> a, std::span<const float> b) {
  if (count_differences(a, b) != 1) return std::nullopt;
  size_t i = 0;
  while (bits(a[i]) == bits(b[i])) ++i;
  return i;
}

}  // namespace understudy
