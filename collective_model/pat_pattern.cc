#include "collective_model/pat_pattern.h"

#include <algorithm>
#include <bit>

namespace understudy {
namespace {

constexpr uint32_t kBufferSteps = 8;

uint32_t lowest_bit(uint32_t x) { return static_cast<uint32_t>(std::countr_zero(x)); }

/// All-gather's rows below `distance`: the middle, what is above it, then what is below, each
/// alike.
void spread(uint32_t base, uint32_t distance, std::vector<uint32_t>& rows) {
  if (distance < 2) return;
  rows.push_back(base + distance / 2);
  spread(base + distance / 2, distance / 2, rows);
  spread(base, distance / 2, rows);
}

}  // namespace

PatPattern::PatPattern(bool gather, uint32_t ranks, uint64_t block_bytes, uint32_t chunk_bytes)
    : gather_(gather), ranks_(ranks) {
  distance_ = std::bit_ceil(ranks);
  const auto join = [&] {
    trees_ *= 2;
    distance_ /= 2;
  };
  while (trees_ < ranks / 2 && chunk_bytes / (block_bytes * trees_) >= 2) join();
  per_message_ = trees_;
  // As many trees again as the buffer has steps.
  for (uint32_t d = kBufferSteps; d > 1 && trees_ < ranks / 2; d /= 2) join();

  messages_.resize(lowest_bit(std::bit_ceil(ranks)));
  rows_.assign(size_t{distance_} * (trees_ / per_message_), kNone);
  levels_.resize(lowest_bit(trees_));
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
  const uint32_t groups = trees_ / per_message_;
  for (uint32_t g = 0; g < groups; ++g) {
    std::vector<uint32_t> pieces;
    for (uint32_t i = 0; i < per_message_; ++i) {
      pieces.push_back(mirrored(g * per_message_ + i, trees_) * distance_ + u);
    }
    add(lowest_bit(u), rows_, u * groups + g, pieces);
  }
}

void PatPattern::add_level(uint32_t scale) {
  const uint32_t count = trees_ / (2 * scale);
  std::vector<uint32_t>& index = levels_[lowest_bit(scale)];
  index.assign((count + per_message_ - 1) / per_message_, kNone);
  for (uint32_t g = 0; g < index.size(); ++g) {
    std::vector<uint32_t> pieces;
    for (uint32_t i = g * per_message_; i < std::min(count, (g + 1) * per_message_); ++i) {
      pieces.push_back((2 * mirrored(i, count) + 1) * scale * distance_);
    }
    add(lowest_bit(scale * distance_), index, g, pieces);
  }
}

void PatPattern::add(uint32_t dimension, std::vector<uint32_t>& index, uint32_t slot,
                     const std::vector<uint32_t>& pieces) {
  // The piece that comes last is the smallest one in a reduce-scatter, the largest in an
  // all-gather: there messages have gaps at their beginning, here they end early.
  Group group;
  bool any = false;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i] >= ranks_) continue;
    group.pieces = i + 1;
    const uint32_t hop = 1u << dimension;
    const uint32_t sent = gather_ ? pieces[i] - hop : pieces[i];
    if (!any) group.first_piece = sent;
    any = true;
    if (gather_) {
      if (sent != 0) need(group, sent, dimension == 0);
    } else {
      for (uint32_t e = 0; e < dimension; ++e) {
        if (sent + (1u << e) < ranks_) need(group, sent + (1u << e), false);
      }
    }
  }
  if (!any) return;
  index[slot] = static_cast<uint32_t>(messages_[dimension].size());
  messages_[dimension].push_back(std::move(group));
}

uint32_t PatPattern::row_slot(uint32_t piece) const {
  const uint32_t place = mirrored(piece / distance_, trees_);
  return piece % distance_ * (trees_ / per_message_) + place / per_message_;
}

uint32_t PatPattern::level_place(uint32_t piece) const {
  const uint32_t a = piece / distance_, scale = a & (~a + 1);
  return mirrored((a / scale - 1) / 2, trees_ / (2 * scale)) / per_message_;
}

/// `received`: the piece as the one who sent it counts (reduce-scatter), or as it is here
/// (all-gather).
void PatPattern::need(Group& group, uint32_t received, bool last_use) {
  const uint32_t dimension = lowest_bit(received);
  const uint32_t message = received % distance_ != 0
                               ? rows_[row_slot(received)]
                               : levels_[dimension - lowest_bit(distance_)][level_place(received)];
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
