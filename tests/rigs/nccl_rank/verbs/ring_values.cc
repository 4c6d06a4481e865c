#include "tests/rigs/nccl_rank/verbs/ring_values.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dataplane/base/pattern.h"

namespace understudy::nccl_rank {

RingValues::RingValues(const Settings& settings, const RankSchedule& schedule)
    : settings_(settings),
      schedule_(schedule),
      input_(settings.elements),
      chunks_(settings.elements, settings.ranks) {
  const Pattern own(settings.own_seed, settings.rank);
  for (uint64_t i = 0; i < settings.elements; ++i) input_[i] = own.at(i);
  values_ = input_;
}

uint32_t RingValues::step(uint32_t connection, uint64_t k) const {
  const Connection& c = schedule_.connections()[connection];
  const uint64_t slices = c.chunk_steps / c.slice_steps;
  return static_cast<uint32_t>(k / slices % (2 * (uint64_t{settings_.ranks} - 1)));
}

std::span<float> RingValues::part(const Message& message) {
  return std::span(values_).subspan(message.offset / sizeof(float), message.data / sizeof(float));
}

void RingValues::receive(uint32_t connection, uint64_t k, const std::byte* bytes) {
  const Message message = schedule_.message(connection, k);
  const std::span<float> own = part(message);
  const uint32_t j = step(connection, k), n = settings_.ranks;
  const bool reduces = j + 1 < n;
  const auto* in = reinterpret_cast<const float*>(bytes);
  for (size_t i = 0; i < own.size(); ++i) own[i] = reduces ? in[i] + own[i] : in[i];
  const uint32_t chunk = (settings_.rank + 2 * n - 2 - j) % n;
  const uint64_t first = message.offset / sizeof(float);
  for (uint64_t i = first; i < first + own.size(); ++i) chunks_[i] = chunk;
}

void RingValues::send(uint32_t connection, uint64_t k, std::byte* bytes) const {
  const Message message = schedule_.message(connection, k);
  std::memcpy(bytes, reinterpret_cast<const std::byte*>(values_.data()) + message.offset,
              message.data);
}

/// Chunk k starts at rank k+1, and each next rank adds its own to what it received.
uint64_t RingValues::wrong() const {
  const uint32_t n = settings_.ranks;
  std::vector<Pattern> others;
  for (uint32_t rank = 0; rank < n; ++rank) {
    const bool real = std::ranges::find(settings_.real, rank) != settings_.real.end();
    others.emplace_back(real ? settings_.own_seed : settings_.others_seed, rank);
  }
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < settings_.elements; ++i) {
    float sum = 0;
    for (uint32_t s = 1; s <= n; ++s) {
      const uint32_t rank = (chunks_[i] + s) % n;
      const float value = rank == settings_.rank ? input_[i] : others[rank].at(i);
      sum = s == 1 ? value : sum + value;
    }
    const bool right =
        chunks_[i] < n && std::bit_cast<uint32_t>(sum) == std::bit_cast<uint32_t>(values_[i]);
    wrong += right ? 0 : 1;
  }
  return wrong;
}

}  // namespace understudy::nccl_rank
