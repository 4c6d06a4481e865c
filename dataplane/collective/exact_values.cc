#include "dataplane/collective/exact_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

ExactValues::ExactValues(const CollectiveJob& job, std::vector<uint64_t> seeds)
    : job_(job),
      rule_{job.type, job.reduction},
      rooms_(kDeepest * 2 * kBlock),
      passed_on_(kPassedOn) {
  ASSERT_INVARIANT(seeds.size() == job.ranks());
  for (uint32_t rank = 0; rank < seeds.size(); ++rank) patterns_.emplace_back(seeds[rank], rank);
  // The first messages of parts lead from rank to rank, to each but once or twice.
  levels_.reserve(size_t{2} * job.ranks() + kDeepest);
}

const RankSchedule& ExactValues::schedule(size_t operation, uint32_t rank) const {
  const CollectiveShape& shape = *job_.operations[operation];
  if (job_.is_real(rank)) return *shape.real[job_.real_index[rank]];
  return *shape.values->ranks[rank];
}

const FarEnd& ExactValues::far(size_t operation, uint32_t rank, uint32_t connection) const {
  const CollectiveShape& shape = *job_.operations[operation];
  if (job_.is_real(rank)) return shape.far[job_.real_index[rank]][connection];
  return shape.values->far[rank][connection];
}

/// The part that has a byte of a message; parts are in the order of their places.
ExactValues::Found ExactValues::find(const RankSchedule& schedule, uint32_t connection,
                                     uint64_t message, uint32_t at) const {
  uint32_t low = 0, beyond = schedule.value_parts(connection, message);
  DEBUG_ASSERT_INVARIANT(beyond > 0);
  Found found{schedule.value_part(connection, message, 0), 0};
  while (beyond - low > 1) {
    const uint32_t middle = low + (beyond - low) / 2;
    const ValuePart part = schedule.value_part(connection, message, middle);
    if (part.at <= at) {
      low = middle;
      found.part = part;
    } else {
      beyond = middle;
    }
  }
  found.at = at - found.part.at;
  return found;
}

void ExactValues::sent(const Reader* reader, const Place& sender, std::span<uint8_t> out) {
  const RankSchedule& own = schedule(sender.operation, sender.rank);
  const uint32_t parts = own.value_parts(sender.connection, sender.message);
  uint64_t at = sender.at;
  const auto take = [&](uint64_t bytes) {
    const std::span<uint8_t> taken = out.first(std::min<uint64_t>(bytes, out.size()));
    out = out.subspan(taken.size());
    at += taken.size();
    return taken;
  };
  for (uint32_t i = 0; i < parts && !out.empty(); ++i) {
    const ValuePart piece = own.value_part(sender.connection, sender.message, i);
    const uint64_t end = uint64_t{piece.at} + piece.bytes;
    if (end <= at) continue;
    if (piece.at > at) std::ranges::fill(take(piece.at - at), uint8_t{0});  // a gap: no meaning
    const auto in_part = static_cast<uint32_t>(at - piece.at);
    if (parts > 1 || piece.own || piece.size() != 1) {
      part(reader, sender.operation, sender.rank, piece, in_part, take(end - at));
      continue;
    }
    const PassedOn& origin = pass_back(reader, sender, piece);
    part(reader, sender.operation, origin.origin, origin.found.part, origin.found.at + in_part,
         take(end - at));
  }
  std::ranges::fill(out, uint8_t{0});
}

/// Goes back along ranks that pass a message on as it is. Its packets ask for it one after the other.
const ExactValues::PassedOn& ExactValues::pass_back(const Reader* reader, const Place& sender,
                                                    const ValuePart& part) {
  PassedOn& slot = passed_on_[(size_t{sender.rank} * 31 + sender.connection) % kPassedOn];
  if (slot.known && slot.read == (reader != nullptr) && slot.operation == sender.operation &&
      slot.rank == sender.rank && slot.connection == sender.connection &&
      slot.message == sender.message) {
    return slot;
  }
  slot = {true,           reader != nullptr, sender.operation, sender.rank, sender.connection,
          sender.message, sender.rank,       {part, 0}};
  while (!slot.found.part.own && slot.found.part.size() == 1) {
    const ValuePart::Source source = slot.found.part[0];
    const uint32_t at = source.at + slot.found.at;
    const Place place{sender.operation, slot.origin, source.connection, source.message, at};
    std::array<uint8_t, 1> any;
    if (reader != nullptr && reader->read(place, any) != nullptr) break;
    const FarEnd& from = far(sender.operation, slot.origin, source.connection);
    const RankSchedule& other = schedule(sender.operation, from.rank);
    if (other.value_parts(from.connection, source.message) != 1) break;
    slot.found = {other.value_part(from.connection, source.message, 0), at};
    slot.origin = from.rank;
  }
  return slot;
}

void ExactValues::received(const Reader* reader, const Place& receiver, std::span<uint8_t> out) {
  const CollectiveShape& shape = *job_.operations[receiver.operation];
  if (shape.values != nullptr) {
    const FarEnd& sender = far(receiver.operation, receiver.rank, receiver.connection);
    return sent(reader,
                {receiver.operation, sender.rank, sender.connection, receiver.message, receiver.at},
                out);
  }
  // Between two ranks: the sender's own.
  const RankSchedule& own = schedule(receiver.operation, receiver.rank);
  const uint64_t from = own.message(receiver.connection, receiver.message).offset + receiver.at;
  fill_pattern(rule_.type, patterns_[own.connections()[receiver.connection].from], from, out);
}

void ExactValues::part(const Reader* reader, size_t operation, uint32_t rank, const ValuePart& part,
                       uint32_t at, std::span<uint8_t> out) {
  while (!out.empty()) {
    const size_t count = std::min(kBlock, out.size());
    make(reader, operation, rank, {part, at}, out.first(count));
    out = out.subspan(count);
    at += static_cast<uint32_t>(count);
  }
}

/// Of a block. Goes from the part's first message to that one's, until a contribution or a real
/// rank's message begins it all; then back, with what each rank adds. What comes first and what is
/// reduced into it may change places: each of NCCL's reductions gives the same bits both ways.
void ExactValues::make(const Reader* reader, size_t operation, uint32_t rank, const Found& found,
                       std::span<uint8_t> out) {
  const size_t base = levels_.size();
  ValuePart part = found.part;
  uint32_t at = found.at;
  while (true) {
    if (part.size() == 0) {
      fill_pattern(rule_.type, patterns_[rank], part.from + at, out);
      break;
    }
    if (part.own || part.size() > 1) {
      DEBUG_ASSERT_INVARIANT(levels_.size() < levels_.capacity());
      levels_.push_back({rank, part, at});
    }
    const ValuePart::Source source = part[0];
    if (reader != nullptr) {
      const uint8_t* data =
          reader->read({operation, rank, source.connection, source.message, source.at + at}, out);
      if (data != nullptr) {
        if (data != out.data()) std::memcpy(out.data(), data, out.size());
        break;
      }
    }
    const FarEnd& sender = far(operation, rank, source.connection);
    const Found next =
        find(schedule(operation, sender.rank), sender.connection, source.message, source.at + at);
    rank = sender.rank;
    part = next.part;
    at = next.at;
  }
  while (levels_.size() > base) {
    const size_t top = levels_.size() - 1;
    if (levels_[top].part.own) {
      reduce_pattern(rule_, patterns_[levels_[top].rank], levels_[top].part.from + levels_[top].at,
                     out);
    }
    for (uint32_t i = 1; i < levels_[top].part.size(); ++i) {
      make_source(reader, operation, levels_[top].rank, levels_[top].part[i], levels_[top].at, out);
    }
    levels_.pop_back();
  }
}

/// Reduces a further message of a part into a block.
void ExactValues::make_source(const Reader* reader, size_t operation, uint32_t rank,
                              ValuePart::Source source, uint32_t at, std::span<uint8_t> out) {
  if (reader != nullptr) {
    const uint8_t* data =
        reader->read({operation, rank, source.connection, source.message, source.at + at},
                     read_room(out.size()));
    if (data != nullptr) return reduce_values(rule_, data, out);
  }
  const FarEnd& sender = far(operation, rank, source.connection);
  const Found found =
      find(schedule(operation, sender.rank), sender.connection, source.message, source.at + at);
  const std::span<uint8_t> other = room(out.size());
  ++depth_;
  ASSERT_INVARIANT(depth_ < kDeepest);
  make(reader, operation, sender.rank, found, other);
  --depth_;
  reduce_values(rule_, other.data(), out);
}

}  // namespace understudy
