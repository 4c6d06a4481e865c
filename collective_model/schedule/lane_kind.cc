#include "collective_model/schedule/lane_kind.h"

#include <algorithm>

#include "collective_model/schedule/lane.h"
#include "collective_model/schedule/simple_all_reduce.h"

namespace understudy {

bool LaneKind::same_geometry(const LaneKind& other) const {
  return collective == other.collective && algorithm == other.algorithm && roots == other.roots &&
         chunking == other.chunking && element == other.element && places == other.places &&
         first_place == other.first_place && place_step == other.place_step &&
         align == other.align && once == other.once && loop_bytes == other.loop_bytes &&
         sizes == other.sizes && ways == other.ways;
}

uint32_t LaneKind::place(const Way& way, uint64_t k) const {
  if (collective != Collective::kAllReduce || algorithm != Algorithm::kRing) return first_place;
  const auto step = static_cast<uint32_t>(k % way.per_loop / chunking.slices());
  return first_place + all_reduce_chunk(ranks, way.ring_position, step) * place_step;
}

/// Bytes of the whole chunks of a loop.
uint64_t LaneKind::cut(uint64_t size, uint64_t loop) const {
  const uint64_t rest = size - loop * loop_bytes;
  const uint64_t full = chunking.chunk_bytes;
  if (rest >= loop_bytes || align == 0 || (once && loop > 0)) return full;
  const uint64_t share = round_up(ceil_div(rest, places), align);
  return once ? share : std::min(share, full);
}

uint32_t LaneKind::chunk_bytes(uint64_t size, uint64_t loop, uint32_t place) const {
  const uint64_t rest = size - loop * loop_bytes;
  const uint64_t each = cut(size, loop);
  return static_cast<uint32_t>(std::min(each, rest - std::min(place * each, rest)));
}

std::optional<uint32_t> LaneKind::wire(const Way& way, uint64_t k, uint64_t size) const {
  if (k >= messages(way, size)) return std::nullopt;
  const uint32_t bytes = chunk_bytes(size, k / way.per_loop, place(way, k));
  if (!way.pieces.empty()) return bytes * way.pieces[k % way.per_loop];
  const uint32_t each = chunking.slice_bytes(bytes, element);
  const auto begin =
      std::min<uint64_t>(k % way.per_loop % chunking.slices() * uint64_t{each}, bytes);
  return static_cast<uint32_t>(wire_bytes(protocol(), std::min<uint64_t>(each, bytes - begin)));
}

std::optional<uint32_t> LaneKind::wire(const Way& way, uint64_t k, const SizeSet& sizes) const {
  const uint64_t loop = k / way.per_loop;
  std::optional<uint32_t> common;
  const SizeSet existing = sizes.intersected(with_message(way, k));
  for (SizeSet::Interval sizes_here : existing.intervals()) {
    // All sizes beyond the loop have full chunks in it.
    sizes_here.most =
        std::min(sizes_here.most, std::max(sizes_here.least, (loop + 1) * loop_bytes));
    // While chunks are cut alike, they grow with the size, and so do slices while the first one
    // stays.
    const auto first = wire(way, k, sizes_here.least), last = wire(way, k, sizes_here.most);
    if (first != last || cut(sizes_here.least, loop) != cut(sizes_here.most, loop)) return {};
    if (k % way.per_loop % chunking.slices() == 1 &&
        wire(way, k - 1, sizes_here.least) != wire(way, k - 1, sizes_here.most)) {
      return {};
    }
    if (common && common != first) return {};
    common = first;
  }
  return common;
}

SizeSet LaneKind::with_capacity(uint32_t capacity) const {
  if (algorithm == Algorithm::kPat && capacity < chunking.capacity()) {
    if (capacity == 0 || capacity % ranks != 0) return {};
    return {capacity / ranks, capacity / ranks};
  }
  if (capacity != chunking.capacity()) return {};
  return {algorithm == Algorithm::kPat ? ceil_div(capacity, ranks) : 1, SizeSet::kUnbounded};
}

/// Sizes whose chunk at `place` of loop `loop` has from `least` to `most` bytes.
SizeSet LaneKind::with_chunk(uint64_t loop, uint32_t place, uint64_t least, uint64_t most) const {
  SizeSet set;
  const uint64_t full = chunking.chunk_bytes;
  const uint64_t base = loop * loop_bytes;
  // Within the last loop, of `rest` bytes with chunks of `each`. For one `each` the chunk grows
  // with the rest, from nothing to all of it.
  const auto part = [&](uint64_t each, uint64_t rest_least, uint64_t rest_most) {
    if (least > each) return;
    if (least > 0) rest_least = std::max(rest_least, place * each + least);
    if (most < each) rest_most = std::min(rest_most, place * each + most);
    rest_most = std::min(rest_most, loop_bytes - 1);
    if (rest_least <= rest_most) set.add(base + rest_least, base + rest_most);
  };
  if (align == 0 || (once && loop > 0)) {
    part(full, 1, loop_bytes - 1);
  } else {
    const uint64_t limit = once ? round_up(full, align) : full;
    // Chunks larger than this are full at this place, if they are the last loop's.
    const uint64_t largest =
        std::max(most, (uint64_t{places} * align + most) / (places - std::min(place, places - 1)));
    for (uint64_t each = std::max(align, round_up(least, align));; each += align) {
      const bool last = each >= limit;
      const uint64_t cut = last ? limit : each;
      part(cut, uint64_t{places} * (each - align) + 1, last ? loop_bytes - 1 : places * each);
      if (last || each > largest) break;
    }
  }
  if (least <= full && full <= most) set.add(base + loop_bytes, SizeSet::kUnbounded);
  return set;
}

SizeSet LaneKind::with_wire(const Way& way, uint64_t k, uint32_t wire, uint32_t before) const {
  uint64_t least = wire, most = wire;
  if (protocol() == Protocol::kLL || protocol() == Protocol::kLL128) {
    const uint32_t line = protocol() == Protocol::kLL ? 16 : 2048;
    const uint32_t data = protocol() == Protocol::kLL ? 8 : 1920;
    if (wire % line != 0) return {};
    most = uint64_t{wire / line} * data;
    least = most == 0 ? 0 : most - data + 1;
  }
  if (!way.pieces.empty()) {
    const uint32_t pieces = way.pieces[k % way.per_loop];
    if (wire % pieces != 0) return {};
    least = most = wire / pieces;
  } else if (chunking.slices() == 2 && k % 2 == 1) {
    least = most = uint64_t{wire} + before;
    if (most > chunking.chunk_bytes ||
        chunking.slice_bytes(static_cast<uint32_t>(most), element) != before) {
      return {};
    }
  } else if (chunking.slices() == 2) {
    // The first slice grows with the chunk.
    const auto first_from = [&](uint64_t slice) {
      uint64_t low = 0, high = uint64_t{chunking.chunk_bytes} + 1;
      while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (chunking.slice_bytes(static_cast<uint32_t>(middle), element) >= slice) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      return low;
    };
    least = first_from(wire);
    most = first_from(uint64_t{wire} + 1);
    if (least == most) return {};
    --most;
  }
  return with_chunk(k / way.per_loop, place(way, k), least, most);
}

}  // namespace understudy
