#include "tests/rigs/nccl_rank/rank_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/collective/wire_lines.h"
#include "tests/collective/plain_collective.h"

namespace understudy::nccl_rank {

RankValues::RankValues(Settings settings) : settings_(std::move(settings)) {
  for (const Connection& c : schedule().connections()) came_.emplace_back(c.messages);
}

uint64_t RankValues::seed(uint32_t rank) const {
  const bool real = std::ranges::find(settings_.real, rank) != settings_.real.end();
  return real ? settings_.own_seed : settings_.others_seed;
}

void RankValues::receive(uint32_t connection, uint64_t k, const std::byte* bytes) {
  std::vector<uint8_t>& data = came_[connection][k];
  data.resize(schedule().message(connection, k).data);
  const WireLines lines(schedule().connections()[connection].protocol);
  lines.read(reinterpret_cast<const uint8_t*>(bytes), 0, data);
}

/// Its own, then what has come, in the part's order.
std::vector<uint8_t> RankValues::made(const ValuePart& part) const {
  const DataType type = settings_.operation.type;
  const size_t each = element_bytes(type);
  std::vector<uint8_t> out(part.bytes);
  if (part.own) {
    const Pattern own(seed(settings_.rank), settings_.rank);
    for (size_t b = 0; b < out.size(); ++b) {
      const uint64_t at = part.from + b;
      out[b] = static_cast<uint8_t>(plain::contribution(type, own, at / each) >> 8 * (at % each));
    }
  }
  for (uint32_t s = 0; s < part.size(); ++s) {
    const std::vector<uint8_t>& other = came_[part[s].connection][part[s].message];
    if (!part.own && s == 0) {
      std::copy_n(other.begin() + part[s].at, out.size(), out.begin());
      continue;
    }
    for (size_t b = 0; b < out.size(); b += each) {
      uint64_t x = 0, y = 0;
      std::memcpy(&x, out.data() + b, each);
      std::memcpy(&y, other.data() + part[s].at + b, each);
      x = plain::reduced(type, settings_.reduction, x, y);
      std::memcpy(out.data() + b, &x, each);
    }
  }
  return out;
}

void RankValues::send(uint32_t connection, uint64_t k, std::byte* bytes) const {
  const Message message = schedule().message(connection, k);
  std::vector<uint8_t> data(message.data);
  for (uint32_t i = 0; i < schedule().value_parts(connection, k); ++i) {
    const ValuePart part = schedule().value_part(connection, k, i);
    std::ranges::copy(made(part), data.begin() + part.at);
  }
  auto* out = reinterpret_cast<uint8_t*>(bytes);
  const WireLines lines(schedule().connections()[connection].protocol);
  if (lines.plain()) {
    if (!data.empty()) std::memcpy(out, data.data(), data.size());
    return;
  }
  lines.write(data.size(), 0, 0, {out, message.wire}, [&](uint64_t from, std::span<uint8_t> part) {
    std::memcpy(part.data(), data.data() + from, part.size());
  });
}

uint64_t RankValues::wrong() const {
  std::vector<uint64_t> seeds;
  for (uint32_t r = 0; r < settings_.communicator.ranks(); ++r) seeds.push_back(seed(r));
  plain::Collective all(settings_.communicator, settings_.operation, settings_.reduction,
                        settings_.ranks, seeds);
  const plain::Collective::Result right = all.results()[settings_.rank];
  uint64_t wrong = 0;
  std::vector<int> times(right.bytes.size());
  for (uint32_t c = 0; c < came_.size(); ++c) {
    if (schedule().connections()[c].direction != Direction::kReceive) continue;
    for (uint64_t k = 0; k < came_[c].size(); ++k) {
      for (uint32_t i = 0; i < schedule().result_parts(c, k); ++i) {
        const ValuePart part = schedule().result_part(c, k, i);
        const std::vector<uint8_t> result = made(part);
        for (size_t b = 0; b < result.size(); ++b) {
          wrong += result[b] != right.bytes[part.to + b] ? 1 : 0;
          ++times[part.to + b];
        }
      }
    }
  }
  for (size_t b = 0; b < times.size(); ++b) wrong += times[b] != (right.moved[b] ? 1 : 0) ? 1 : 0;
  return wrong;
}

}  // namespace understudy::nccl_rank
