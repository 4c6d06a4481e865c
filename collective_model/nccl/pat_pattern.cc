#include "collective_model/nccl/pat_pattern.h"

#include <algorithm>
#include <bit>

namespace understudy {
namespace {

constexpr uint32_t kBufferSteps = 8;

/// All-gather's rows below `distance`: the middle, what is above it, then what is below, each
/// alike.
void spread(uint32_t base, uint32_t distance, std::vector<uint32_t>& rows) {
  if (distance < 2) return;
  rows.push_back(base + distance / 2);
  spread(base + distance / 2, distance / 2, rows);
  spread(base, distance / 2, rows);
}

}  // namespace

PatPattern::PatPattern(bool gather, uint32_t ranks, uint64_t block_bytes, uint32_t chunk_bytes,
                       bool gaps)
    : gather_(gather), gaps_(gaps), ranks_(ranks), message_of_(ranks, 0), place_of_(ranks, 0) {
  distance_ = std::bit_ceil(ranks);
  const auto join = [&] {
    trees_ *= 2;
    distance_ /= 2;
  };
  while (trees_ < ranks / 2 && chunk_bytes / (block_bytes * trees_) >= 2) join();
  per_message_ = trees_;
  // As many trees again as the buffer has steps.
  for (uint32_t d = kBufferSteps; d > 1 && trees_ < ranks / 2; d /= 2) join();

  messages_.resize(lowest_bit_of(std::bit_ceil(ranks)));
  if (gather) {
    for (uint32_t scale = trees_ / 2; scale > 0; scale /= 2) add_level(scale);
    std::vector<uint32_t> order;
    spread(0, distance_, order);
    for (const uint32_t u : order) add_row(u);
  } else {
    for (uint32_t u = distance_ - 1; u > 0; --u) add_row(u);
    for (uint32_t scale = 1; scale < trees_; scale *= 2) add_level(scale);
  }
}

uint32_t PatPattern::mirrored(uint32_t i, uint32_t count) const {
  if (gather_) return i;
  uint32_t result = 0;
  for (uint32_t bit = 1; bit < count; bit <<= 1) result = result << 1 | ((i & bit) == 0 ? 1 : 0);
  return result;
}

void PatPattern::add_row(uint32_t u) {
  std::vector<uint32_t> pieces;
  for (uint32_t i = 0; i < trees_; ++i) pieces.push_back(mirrored(i, trees_) * distance_ + u);
  add(lowest_bit_of(u), pieces);
}

void PatPattern::add_level(uint32_t scale) {
  const uint32_t count = trees_ / (2 * scale);
  std::vector<uint32_t> pieces;
  for (uint32_t i = 0; i < count; ++i) {
    pieces.push_back((2 * mirrored(i, count) + 1) * scale * distance_);
  }
  add(lowest_bit_of(scale * distance_), pieces);
}

void PatPattern::add(uint32_t dimension, const std::vector<uint32_t>& pieces) {
  std::vector<uint32_t> sent = pieces;
  if (!gaps_) std::erase_if(sent, [&](uint32_t piece) { return piece >= ranks_; });
  const auto count = static_cast<uint32_t>(sent.size());
  for (uint32_t i = 0; i < count; i += per_message_) {
    add_message(dimension, sent.data() + i, std::min(per_message_, count - i));
  }
}

void PatPattern::add_message(uint32_t dimension, const uint32_t* pieces, uint32_t count) {
  // The last piece is the smallest one in a reduce-scatter, the largest in an all-gather: there
  // messages have gaps at their beginning, here they end early.
  Group group;
  bool any = false;
  for (uint32_t i = 0; i < count; ++i) {
    if (pieces[i] >= ranks_) continue;
    message_of_[pieces[i]] = static_cast<uint32_t>(messages_[dimension].size());
    place_of_[pieces[i]] = i;
    group.pieces = i + 1;
    const uint32_t own =
        gather_ ? pieces[i] - (1u << dimension) : pieces[i];  // as the sender counts
    if (!any) group.first_piece = own;
    group.blocks.push_back({own, i});
    any = true;
    if (gather_) {
      if (own != 0) need(group, own, dimension == 0);
    } else {
      for (uint32_t e = 0; e < dimension; ++e) {
        if (own + (1u << e) < ranks_) need(group, own + (1u << e), false);
      }
    }
  }
  if (any) messages_[dimension].push_back(std::move(group));
}

PatPattern::Arrival PatPattern::arrival(uint32_t piece) const {
  return {lowest_bit_of(piece), message_of_[piece], place_of_[piece]};
}

void PatPattern::need(Group& group, uint32_t piece, bool last_use) {
  const uint32_t dimension = lowest_bit_of(piece), message = message_of_[piece];
  // Messages of dimension 0 leave last: each piece that came before them goes on to the neighbour.
  if (last_use) {
    messages_[dimension][message].last_use = static_cast<int64_t>(messages_[0].size());
  }
  for (Need& known : group.needs) {
    if (known.dimension != dimension) continue;
    known.message = std::max(known.message, message);
    return;
  }
  group.needs.push_back({dimension, message});
}

}  // namespace understudy
